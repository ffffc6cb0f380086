package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"
)

// le joins little-endian values to bytes.
func le(values ...any) []byte {
	var e encoder
	for _, v := range values {
		e.put(v)
	}
	return e.Bytes()
}

// with returns a writer with one change.
func with(change func(w *Writer)) []byte {
	w := &Writer{}
	change(w)
	return w.Bytes()
}

// setting returns a file with one metadata pair.
func setting(key string, value any) []byte {
	return with(func(w *Writer) { w.Set(key, value) })
}

// nested returns arrays within arrays, the innermost empty.
func nested(depth int) Raw {
	raw := Raw{Type: uint32(kindArray)}
	for range depth - 1 {
		raw.Bytes = append(raw.Bytes, le(uint32(kindArray), uint64(1))...)
	}
	raw.Bytes = append(raw.Bytes, le(uint32(kindUint8), uint64(0))...)
	return raw
}

func ones(n int) []byte { return bytes.Repeat([]byte{1}, n) }

var refusals = map[string]struct {
	data []byte
	want string // the error, without the package
}{
	"an empty file":           {nil, "empty file"},
	"another magic":           {[]byte("GGUX\x03\x00\x00\x00"), `magic "GGUX", want "GGUF": not a GGUF file`},
	"half a magic":            {[]byte("GG"), "truncated in the header: wants 4 bytes at offset 0, the file has 2 more"},
	"version 0":               {append([]byte(magic), 0, 0, 0, 0), "version 0 is not supported, want 2 or 3"},
	"version 1":               {with(func(w *Writer) { w.Version = 1 }), "version 1 is not supported, want 2 or 3; convert"},
	"version 4":               {with(func(w *Writer) { w.Version = 4 }), "version 4 is not supported, want 2 or 3"},
	"big-endian":              {with(func(w *Writer) { w.Version = 3 << 24 }), "big-endian file (version 0x03000000), want little-endian"},
	"big-endian version 2":    {with(func(w *Writer) { w.Version = 2 << 24 }), "big-endian file"},
	"a cut-off version":       {[]byte("GGUF\x03"), "truncated in the header"},
	"a cut-off count":         {[]byte("GGUF\x03\x00\x00\x00\x01"), "truncated in the header: wants 8 bytes at offset 8, the file has 1 more"},
	"more pairs than held":    {with(func(w *Writer) { w.Set("a", uint8(1)); w.ExtraPairs = 1 << 40 }), "truncated in the metadata: claims 1099511627777 pairs, the remaining"},
	"2^64 - 1 pairs":          {with(func(w *Writer) { w.ExtraPairs = math.MaxUint64 }), "truncated in the metadata: claims 18446744073709551615 pairs"},
	"one more pair":           {with(func(w *Writer) { w.Set("a", strings.Repeat("x", 40)); w.ExtraPairs = 1 }), "truncated in the metadata"},
	"a cut-off key":           {append(with(func(w *Writer) { w.ExtraPairs = 1 })[:24], le(uint64(90), uint64(0))...), "truncated in the metadata, pair 1 of 1: wants 90 bytes"},
	"a cut-off value":         {setting("k", "0123456789")[:40], `truncated in the metadata, key "k": wants 8 bytes at offset 37`},
	"a key near 2^64 long":    {append(with(func(w *Writer) { w.ExtraPairs = 1 })[:24], le(uint64(math.MaxUint64-7), uint64(0))...), "wants 18446744073709551608 bytes"},
	"a string near 2^64 long": {setting("k", Raw{uint32(kindString), le(uint64(math.MaxUint64 - 3))}), `truncated in the metadata, key "k": wants 18446744073709551612 bytes`},
	"a string of 2^63 bytes":  {setting("k", Raw{uint32(kindString), le(uint64(1 << 63))}), `truncated in the metadata, key "k": wants 9223372036854775808 bytes`},
	"2^64 - 1 bytes":          {setting("k", Raw{uint32(kindArray), le(uint32(kindUint8), uint64(math.MaxUint64))}), `key "k": claims 18446744073709551615 uint8 elements`},
	"2^61 + 1 times 8 bytes":  {setting("k", Raw{uint32(kindArray), le(uint32(kindUint64), uint64(1<<61+1), uint64(0))}), `key "k": claims 2305843009213693953 uint64 elements`},
	"2^64 - 1 strings":        {setting("k", Raw{uint32(kindArray), le(uint32(kindString), uint64(math.MaxUint64))}), `key "k": claims 18446744073709551615 string elements`},
	"2^64 - 1 arrays":         {setting("k", Raw{uint32(kindArray), le(uint32(kindArray), uint64(math.MaxUint64))}), `key "k": claims 18446744073709551615 array elements`},
	"2^64 - 1 bools":          {setting("k", Raw{uint32(kindArray), le(uint32(kindBool), uint64(math.MaxUint64))}), `key "k": claims 18446744073709551615 bool elements`},
	"a long string in a list": {setting("k", Raw{uint32(kindArray), le(uint32(kindString), uint64(1), uint64(math.MaxUint64))}), `key "k": wants 18446744073709551615 bytes`},
	"17 nested arrays":        {setting("k", nested(17)), `key "k": arrays nested more than 16 deep`},
	"100000 nested arrays":    {setting("k", nested(100_000)), `key "k": arrays nested more than 16 deep`},
	"value type 13":           {setting("k", Raw{13, make([]byte, 8)}), `key "k": value type 13, want 0 to 12`},
	"element type 2^32 - 1":   {setting("k", Raw{uint32(kindArray), le(uint32(math.MaxUint32), uint64(0))}), `key "k": value type 4294967295, want 0 to 12`},
	"bool 2":                  {setting("k", Raw{uint32(kindBool), []byte{2}}), `key "k": bool 2, want 0 or 1`},
	"bool 255 in an array":    {setting("k", Raw{uint32(kindArray), append(le(uint32(kindBool), uint64(2)), 1, 255)}), `key "k": bool 255, want 0 or 1`},
	"a key twice":             {with(func(w *Writer) { w.Set("k", uint32(1)); w.Set("k", uint32(2)) }), `key "k": given twice, with different values`},
	"a key of two types":      {with(func(w *Writer) { w.Set("k", uint32(1)); w.Set("k", int32(1)) }), `key "k": given twice, with different values`},
	"one part of three":       {setting("split.count", uint16(3)), "split.count: one of 3 parts, want the whole model"},
	"a split of text":         {setting("split.count", "3"), `key "split.count": string "3", want an integer`},
	"alignment 0":             {setting("general.alignment", uint32(0)), "general.alignment: 0, want a power of two"},
	"alignment 3":             {setting("general.alignment", uint32(3)), "general.alignment: 3, want a power of two"},
	"alignment 2^31":          {setting("general.alignment", uint32(1<<31)), "general.alignment: 2147483648, want a power of two up to 16777216"},
	"alignment 2^63":          {setting("general.alignment", uint64(1<<63)), "general.alignment: 9223372036854775808, want a power of two"},
	"alignment -32":           {setting("general.alignment", int32(-32)), `key "general.alignment": int32 -32, want an integer of at least 0`},
	"alignment of text":       {setting("general.alignment", "32"), `key "general.alignment": string "32", want an integer`},
	"2^64 - 1 tensors":        {with(func(w *Writer) { w.ExtraTensors = math.MaxUint64 }), "truncated in the tensor infos: claims 18446744073709551615 tensors"},
	"tensors without infos":   {with(func(w *Writer) { w.ExtraTensors = 2 }), "truncated in the tensor infos: claims 2 tensors, the remaining 8 bytes hold at most 0"},
	"one more tensor":         {with(func(w *Writer) { w.Add("a", I8, []int64{300}, make([]byte, 300)); w.ExtraTensors = 1 }), "tensor 2 of 2: no name; the file may hold fewer tensors than it claims"},
	"one more, among weights": {with(func(w *Writer) { w.Add("a", I8, []int64{300}, bytes.Repeat([]byte{255}, 300)); w.ExtraTensors = 1 }), "truncated in the tensor infos, tensor 2 of 2"},
	"a cut-off tensor info":   {with(func(w *Writer) { w.Add("a", I8, []int64{1}, nil); w.Add(strings.Repeat("b", 40), I8, []int64{1}, nil) })[:120], `truncated in the tensor infos, tensor "bbbb`},
	"no dimensions":           {tensor(I8, []int64{}, ones(64), 0), `tensor "t": 0 dimensions, want 1 to 4`},
	"five dimensions":         {tensor(I8, []int64{1, 1, 1, 1, 1}, ones(1), 0), `tensor "t": 5 dimensions, want 1 to 4`},
	"dimension 0":             {tensor(I8, []int64{4, 0}, ones(4), 0), `tensor "t": a dimension is 0, want at least 1`},
	"dimension 2^63":          {tensor(I8, []int64{math.MinInt64}, ones(4), 0), `tensor "t": dimensions [] times 9223372036854775808 overflow`},
	"2^64 elements":           {tensor(I8, []int64{1 << 32, 1 << 32}, ones(4), 0), `tensor "t": dimensions [4294967296] times 4294967296 overflow`},
	"2^63 elements":           {tensor(I8, []int64{1 << 31, 1 << 32}, ones(4), 0), `tensor "t": dimensions [2147483648] times 4294967296 overflow`},
	"2^66 elements":           {tensor(I8, []int64{1 << 22, 1 << 22, 1 << 22}, ones(4), 0), `tensor "t": dimensions [4194304 4194304] times 4194304 overflow`},
	"2^65 bytes":              {tensor(F64, []int64{1 << 62}, ones(4), 0), `tensor "t": shape [4611686018427387904] of F64 overflows the number of bytes`},
	"part of a block":         {tensor(Q4_1, []int64{48, 2}, ones(60), 0), `tensor "t": 48 columns of Q4_1, want a multiple of 32`},
	"part of a super-block":   {tensor(Q4_K, []int64{288, 2}, ones(324), 0), `tensor "t": 288 columns of Q4_K, want a multiple of 256`},
	"weight type 4":           {tensor(4, []int64{32}, ones(64), 0), `tensor "t": weight type number 4 is unknown`},
	"weight type 42":          {tensor(42, []int64{32}, ones(64), 0), `tensor "t": weight type number 42 is unknown`},
	"weight type 2^32 - 1":    {tensor(math.MaxUint32, []int64{32}, ones(64), 0), `tensor "t": weight type number 4294967295 is unknown`},
	"a misaligned offset":     {tensor(I8, []int64{4}, ones(64), 16), `tensor "t": offset 16, want a multiple of the alignment 32`},
	"an offset past the end":  {tensor(I8, []int64{4}, ones(4), 64), `truncated in the tensor data, tensor "t": wants 4 bytes at offset 64, the section holds 32`},
	"an offset near 2^64":     {tensor(I8, []int64{64}, ones(64), math.MaxUint64-31), `truncated in the tensor data, tensor "t": wants 64 bytes at offset 18446744073709551584`},
	"data past the end":       {tensor(F32, []int64{9}, ones(4), 0), `truncated in the tensor data, tensor "t": wants 36 bytes at offset 0, the section holds 32`},
	"data 2^62 bytes long":    {tensor(I8, []int64{1 << 62}, ones(4), 32), `truncated in the tensor data, tensor "t": wants 4611686018427387904 bytes`},
	"no data section":         {bytes.TrimRight(tensor(I8, []int64{4}, nil, 0), "\x00"), "truncated in the tensor infos"},
	"the same data twice":     {with(func(w *Writer) { w.Add("a", I8, []int64{4}, ones(4)); w.AddAt("b", I8, []int64{4}, ones(4), 0) }), `tensors "a" and "b" overlap`},
	"data that overlaps": {with(func(w *Writer) {
		w.AddAt("b", I8, []int64{40}, ones(64), 32)
		w.AddAt("a", I8, []int64{33}, ones(40), 0)
	}), `tensors "a" and "b" overlap: the first ends at offset 33, the second begins at 32`},
	"a tensor name twice": {with(func(w *Writer) { w.Add("a", I8, []int64{4}, ones(4)); w.Add("a", I8, []int64{4}, ones(4)) }), `tensor "a": name given to two tensors`},
	"an absurd key":       {setting(strings.Repeat("k", 1<<20), Raw{99, nil}), `key "` + strings.Repeat("k", 80) + `"… (1048576 bytes): value type`},
}

// tensor returns a file with one tensor that claims to lie at offset.
func tensor(kind Type, shape []int64, data []byte, offset uint64) []byte {
	return with(func(w *Writer) { w.AddAt("t", kind, shape, data, offset) })
}

func TestParseRefuses(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(c.data)
			if err == nil || f != nil {
				t.Fatalf("accepted, want %q", c.want)
			}
			if !strings.HasPrefix(err.Error(), "gguf: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q", err, c.want)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

var acceptances = map[string][]byte{
	"nothing inside":    with(func(w *Writer) {}),
	"no padding at all": with(func(w *Writer) {})[:24],
	"version 2":         with(func(w *Writer) { *w = *sample(); w.Version = 2 }),
	"alignment 1":       with(func(w *Writer) { *w = *sample(); w.Alignment = 1 }),
	"alignment 8":       with(func(w *Writer) { *w = *sample(); w.Alignment = 8 }),
	"alignment 4096":    with(func(w *Writer) { *w = *sample(); w.Alignment = 4096 }),
	"alignment 2 MiB":   with(func(w *Writer) { *w = *sample(); w.Alignment = 2 << 20 }),
	"alignment as uint64": with(func(w *Writer) {
		w.Set("general.alignment", uint64(32))
		w.Add("t", I8, []int64{4}, ones(4))
	}),
	"no final padding": bytes.TrimRight(with(func(w *Writer) { *w = *sample() }), "\x00"),
	"trailing bytes":   append(sample().Bytes(), "anything"...),
	"a gap":            with(func(w *Writer) { w.Add("a", I8, []int64{4}, ones(100)); w.Add("b", I8, []int64{4}, ones(4)) }),
	"data in another order": with(func(w *Writer) {
		w.AddAt("b", I8, []int64{4}, ones(4), 32)
		w.AddAt("a", I8, []int64{4}, ones(4), 0)
	}),
	"trailing dimensions of 1": tensor(Q4_1, []int64{32, 1, 1, 1}, ones(20), 0),
	"an empty key":             setting("", "value"),
	"an empty string":          setting("k", ""),
	"bytes that are no UTF-8":  setting("k\xff", "\xfe\x00"),
	"a key twice, same value":  with(func(w *Writer) { w.Set("k", "v"); w.Set("k", "v") }),
	"a model in one part":      setting("split.count", uint16(1)),
	"a split count of 0":       setting("split.count", uint16(0)),
	"unknown keys":             setting("no.such.key", []any{[]string{"a"}, []float64{1}}),
	"16 nested arrays":         setting("k", nested(16)),
	"an empty list of arrays":  setting("k", []any{}),
	"every weight type": with(func(w *Writer) {
		for i, l := range layouts {
			if kind := Type(i); kind.known() {
				w.Add(kind.String(), kind, []int64{l.elements, 3}, ones(int(3*l.bytes)))
			}
		}
	}),
}

func TestParseAccepts(t *testing.T) {
	for name, data := range acceptances {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			use(f)
			for _, tensor := range f.Tensors() {
				if blocks := tensor.Rows() * tensor.Columns() / tensor.Type.BlockSize(); int64(len(tensor.Data)) != blocks*tensor.Type.BlockBytes() {
					t.Errorf("%s: %d bytes of data for %d blocks", tensor.Name, len(tensor.Data), blocks)
				}
			}
		})
	}
}

func TestDataFollowsOffsetsNotOrder(t *testing.T) {
	w := &Writer{}
	w.AddAt("second", I8, []int64{2}, []byte{1, 2}, 32)
	w.AddAt("first", I8, []int64{2}, []byte{3, 4}, 0)
	f := parse(t, w)
	if got := f.Tensors()[0].Data; f.Tensors()[0].Name != "second" || !bytes.Equal(got, []byte{3, 4}) {
		t.Errorf("second holds %v, want the bytes at offset 32", got)
	}
}

// use calls everything a reader might call, so that a wrongly accepted file would panic here.
func use(f *File) {
	for _, key := range f.Keys() {
		f.Value(key)
		f.Uint(key)
		f.Float(key)
		f.Bool(key)
		f.String(key)
		f.Uints(key)
		f.Ints(key)
		f.Floats(key)
		f.Strings(key)
		f.ByLayer(key, 2)
	}
	for _, t := range f.Tensors() {
		n := t.Rows() * t.Columns()
		if n < 1<<16 {
			Dequantize(t.Type, t.Data, make([]float32, n))
		}
	}
}

func TestTruncationAnywhereNeverPanics(t *testing.T) {
	data := sample().Bytes()
	whole := len(data)
	refused := 0
	for n := range data {
		f, err := Parse(data[:n:n])
		if (f == nil) == (err == nil) {
			t.Fatalf("%d of %d bytes: file %v, error %v", n, whole, f, err)
		}
		if err != nil {
			refused++
			continue
		}
		use(f)
	}
	if padding := 32 - 24; refused != whole-padding { // the last tensor has 24 bytes
		t.Errorf("%d of %d prefixes refused, want all but the %d that lack only final padding", refused, whole, padding)
	}
}

func TestChangedBytesNeverPanic(t *testing.T) {
	data := sample().Bytes()
	refused, accepted := 0, 0
	for at := range data {
		for _, flip := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
			data[at] ^= flip
			if f, err := Parse(data); err == nil {
				use(f)
				accepted++
			} else {
				refused++
			}
			data[at] ^= flip
		}
	}
	if refused == 0 || accepted == 0 {
		t.Errorf("%d changes refused, %d accepted, want some of both", refused, accepted)
	}
}

func TestClaimedCountsAllocateNothing(t *testing.T) {
	for name, at := range map[string]int{"tensors": 8, "pairs": 16} {
		data := make([]byte, 1<<24) // room enough to make the claim plausible
		copy(data, with(func(w *Writer) {}))
		binary.LittleEndian.PutUint64(data[at:], 400_000)
		copy(data[24:], bytes.Repeat([]byte{255}, 64)) // and the first item is broken
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(data)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "1 of 400000") {
			t.Errorf("%s: error %v, want one about the first", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 100_000 {
			t.Errorf("%s: %d bytes allocated for a claim", name, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample().Bytes())
	for _, data := range acceptances {
		if len(data) < 1<<12 {
			f.Add(data)
		}
	}
	for _, c := range refusals {
		if len(c.data) < 1<<12 {
			f.Add(c.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if (file == nil) == (err == nil) {
			t.Fatalf("file %v, error %v", file, err)
		}
		if err == nil {
			use(file)
		}
	})
}
