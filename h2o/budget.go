package h2o

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Budget is how much of the KV cache a run may keep: a share of the context,
// slots per KV head, or bytes for the whole cache. Make one with ParseBudget;
// the zero Budget is not valid.
type Budget struct {
	unit  budgetUnit
	value int64  // parts per million, slots or bytes
	text  string // as given
}

type budgetUnit uint8

const (
	noUnit budgetUnit = iota
	shareOfContext
	slotsPerHead
	bytesOfCache
	shareOfBytes
)

const (
	million = 1_000_000 // a share of 1, in parts
	// maxSlots keeps every position apart from the mark of an empty slot, 0xffffffff.
	maxSlots = math.MaxUint32 - 1
)

// accepted ends every error about the form of a budget.
const accepted = `give a share of the context above 0% and up to 100% ("20%"), slots per KV head ("1024"), bytes for the whole cache ("512MiB") or a share of the bytes that the context takes in f16 ("20%B")`

// byteUnits are the suffixes of a size, longest first where one ends another.
var byteUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1},
}

// ParseBudget reads "20%", "12.5%", "1024", "512MiB", "1.5GB" or "20%B". A percentage
// has up to four decimals, which makes every share exact.
func ParseBudget(text string) (Budget, error) {
	refuse := func(why string) (Budget, error) {
		return Budget{}, fmt.Errorf("h2o: budget %q: %s; %s", text, why, accepted)
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return refuse("empty")
	}
	b := Budget{unit: slotsPerHead, text: trimmed}
	number, scale := trimmed, int64(1)
	if digits, found := strings.CutSuffix(trimmed, "%"); found {
		b.unit, number, scale = shareOfContext, digits, million/100
	} else if digits, found := strings.CutSuffix(trimmed, "%B"); found {
		b.unit, number, scale = shareOfBytes, digits, million/100
	} else {
		for _, u := range byteUnits {
			if digits, found := strings.CutSuffix(trimmed, u.suffix); found {
				b.unit, number, scale = bytesOfCache, digits, u.bytes
				break
			}
		}
	}
	value, why := scaled(strings.TrimSpace(number), scale, b.unit == bytesOfCache)
	switch {
	case why != "":
		return refuse(why)
	case value < 0:
		return refuse("negative")
	case value == 0:
		return refuse("keeps nothing")
	case (b.unit == shareOfContext || b.unit == shareOfBytes) && value > million:
		return refuse("more than the whole context")
	case b.unit == slotsPerHead && value > maxSlots:
		return refuse(fmt.Sprintf("more slots than there are positions (%d)", int64(maxSlots)))
	}
	b.value = value
	return b, nil
}

// scaled returns a decimal number times scale, exact where it is whole; a size
// may be cut down to a whole byte, anything else may not lose a digit.
func scaled(number string, scale int64, cut bool) (value int64, why string) {
	sign := int64(1)
	if rest, found := strings.CutPrefix(number, "-"); found {
		sign, number = -1, rest
	}
	whole, fraction, _ := strings.Cut(number, ".")
	if !digits(whole) || fraction != "" && !digits(fraction) || strings.HasSuffix(number, ".") {
		return 0, "not a number with a known unit"
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/scale {
		return 0, "too large"
	}
	value = n * scale
	for _, digit := range fraction {
		if scale%10 != 0 && !cut {
			return 0, "too many decimals"
		}
		// Binary units do not divide by ten: what is lost is under a byte per digit.
		value += scale * int64(digit-'0') / 10
		scale /= 10
		if value < 0 {
			return 0, "too large"
		}
	}
	return sign * value, ""
}

func digits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}

// String returns the budget as it was given.
func (b Budget) String() string { return b.text }

// InBytes tells a budget in bytes, from one that counts kept slots.
func (b Budget) InBytes() bool { return b.unit == bytesOfCache || b.unit == shareOfBytes }

// holds tells whether a plan keeps to a budget in bytes. A size bounds all that is allocated. A share is of the K and V of
// the whole context in f16, and bounds what evictions leave: so that types can be compared, and a budget in slots with it.
func (b Budget) holds(p *Plan, g Geometry) bool {
	if b.unit == shareOfBytes {
		return p.Kept <= g.Bytes(Types{"f16", "f16"}, p.Context)*b.value/million
	}
	return p.Bytes <= b.value
}

// Relative tells a share of the context from what is the same in every context.
func (b Budget) Relative() bool { return b.unit == shareOfContext }

// Slots returns the slots per KV head that a budget in shares or slots allows, at most context: a share of the context
// rounded half up, at least one, or the given number. What fits into bytes depends on the whole plan.
func (b Budget) Slots(context int) (int, error) {
	if context < 1 {
		return 0, fmt.Errorf("h2o: budget %s: context of %d tokens, want at least 1", b, context)
	}
	switch b.unit {
	case shareOfContext:
		return int(max(1, (int64(context)*b.value+million/2)/million)), nil
	case slotsPerHead:
		return int(min(b.value, int64(context))), nil
	case bytesOfCache, shareOfBytes:
		return 0, fmt.Errorf("h2o: budget %s is in bytes; want a share of the context such as 10%% or slots per KV head such as 256", b)
	}
	return 0, fmt.Errorf("h2o: budget is not set; %s", accepted)
}

// MarshalText writes the budget as it was given.
func (b Budget) MarshalText() ([]byte, error) { return []byte(b.text), nil }

// UnmarshalText reads what MarshalText wrote; nothing is the zero Budget.
func (b *Budget) UnmarshalText(text []byte) (err error) {
	*b = Budget{}
	if len(text) > 0 {
		*b, err = ParseBudget(string(text))
	}
	return err
}
