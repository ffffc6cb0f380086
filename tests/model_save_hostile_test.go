package tests

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// savedFile is a saved session taken apart, to be put together wrongly.
type savedFile struct {
	version, length uint32 // length: of the header, more than it has
	header          map[string]any
	payload         []byte
	tail            []byte
}

func takeApart(t testing.TB, file []byte) *savedFile {
	t.Helper()
	n := binary.LittleEndian.Uint32(file[12:])
	f := &savedFile{version: 2, payload: slices.Clone(file[16+n : len(file)-sha256.Size])}
	if err := json.Unmarshal(file[16:16+n], &f.header); err != nil {
		t.Fatal(err)
	}
	return f
}

// bytes makes a file of it, with a sum that is right.
func (f *savedFile) bytes(t testing.TB) []byte {
	header, err := json.Marshal(f.header)
	if err != nil {
		t.Fatal(err)
	}
	b := []byte("vkdsess\n")
	b = binary.LittleEndian.AppendUint32(b, f.version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(header))+f.length)
	b = append(append(b, header...), f.payload...)
	sum := sha256.Sum256(b)
	return append(append(b, sum[:]...), f.tail...)
}

// savedSmall is a small session and what it saves: 40 tokens of the built-in model, 24 slots in a head.
func savedSmall(t testing.TB, d *vk.Device) (*model.Session, []byte) {
	s := openSession(t, builtinOn(t, d), kv("h2o", "24", 0.5, 16), 64)
	decode(t, s, passageIDs(t)[:31], 10, false)
	return s, saved(t, s)
}

// Where things lie behind the header of that file.
const (
	savedTokens = 40
	savedLogits = 4 * savedTokens
	savedHead   = savedLogits + 4*1024 // live, evicted, budget; then slots, K and V of 32 f32 each
	savedSlots  = savedHead + 12
	savedBytes  = 12 + 24*(8+2*32*4) // of a head
)

func TestRestoreRefusesFilesThatAreWrong(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, file := savedSmall(t, d)
		put := func(at int, v uint32) func(f *savedFile) {
			return func(f *savedFile) { binary.LittleEndian.PutUint32(f.payload[at:], v) }
		}
		set := func(key string, v any) func(f *savedFile) { return func(f *savedFile) { f.header[key] = v } }
		if takeApart(t, file).payload[savedHead] != 24 || len(takeApart(t, file).payload) != savedHead+6*savedBytes {
			t.Fatal("the file is not laid out as this test thinks")
		}
		for want, change := range map[string]func(f *savedFile){
			"":                                   func(*savedFile) {},
			"format version 3 in the file, 2 he": func(f *savedFile) { f.version = 3 },
			"a header of":                        func(f *savedFile) { f.length = 1 << 20 },
			"cut short":                          func(f *savedFile) { f.payload = f.payload[:savedHead+100] },
			"the file goes on behind its end":    func(f *savedFile) { f.tail = []byte{0} },
			"header: json: unknown field":        set("colour", "red"),
			"header: h2o: budget":                set("kv", map[string]any{"budget": "much"}),
			"header: tokens is 0":                set("tokens", 0),
			"header: length is -1":               set("length", -1),
			"header: a context of -1 tokens":     set("context", -1),
			"prompt of 41, of 40":                set("longest_prompt", 41),
			"65 tokens, and the session is":      set("tokens", 65),
			"token id 1024, want 0 to 1023":      set("pending", 1024),
			"token id -1, want 0 to 1023":        put(0, math.MaxUint32),
			"41 live slots, there is room":       put(savedHead, 41),
			"24 live tokens and 15 evicted":      put(savedHead+4, 15),
			"a budget of 24 slots of its own":    put(savedHead+8, 24),
			"layer 0, KV head 0: position 40":    put(savedSlots, 40),
			"KV head 1: position 39 twice":       put(savedSlots+savedBytes+8*22, 39),
			"has score NaN":                      put(savedSlots+4, math.Float32bits(float32(math.NaN()))),
			"has score +Inf":                     put(savedSlots+savedBytes+4, math.Float32bits(float32(math.Inf(1)))),
			"policy: not in the file":            set("agreement", map[string]any{}),
		} {
			f := takeApart(t, file)
			change(f)
			err := s.Restore(bytes.NewReader(f.bytes(t)))
			if want == "" {
				if err != nil {
					t.Error(err)
				}
				continue
			}
			wantError(t, err, "model: saved session: ", want)
			if len(s.Tokens) > 0 || s.Pending != model.NoToken {
				t.Errorf("%s: %d tokens are left of a refused file", want, len(s.Tokens))
			}
		}
		wantError(t, s.Restore(bytes.NewReader([]byte("GGUF and so on"))), "no session that vkdecode saved")
		wantError(t, s.Restore(bytes.NewReader(nil)), "cut short")
	})
}

// However a file is cut or damaged, it is refused, and the session goes on as new.
func TestRestoreRefusesDamagedFiles(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, file := savedSmall(t, d)
		r := rand.New(rand.NewPCG(3, 4))
		tries := 200
		if slow(d) {
			tries = 40
		}
		for i := range tries {
			damaged := slices.Clone(file)
			at := r.IntN(len(file))
			if i < 32 {
				at = i // the beginning
			}
			damaged[at] ^= byte(1 + r.IntN(255))
			if err := s.Restore(bytes.NewReader(damaged)); err == nil {
				t.Errorf("byte %d of %d changed: accepted", at, len(file))
			}
			if err := s.Restore(bytes.NewReader(file[:at])); err == nil {
				t.Errorf("cut to %d of %d bytes: accepted", at, len(file))
			}
		}
		ids := passageIDs(t)[:31]
		want := decode(t, openSession(t, builtinOn(t, d), kv("h2o", "24", 0.5, 16), 64), ids, 10, false)
		if got := decode(t, s, ids, 10, false); got.difference(want) != "" {
			t.Errorf("after refusals a session differs from a new one in %s", got.difference(want))
		}
		restore(t, s, file)
	})
}

// fullDisk takes so many bytes.
type fullDisk struct{ room int }

var errFull = errors.New("no space left")

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestSaveTellsThatItFailed(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, file := savedSmall(t, d)
		for _, room := range []int{0, 10, len(file) - 1} {
			if err := s.Save(&fullDisk{room}); !errors.Is(err, errFull) {
				t.Errorf("with room for %d bytes: %v", room, err)
			}
		}
		if err := s.Save(&fullDisk{len(file)}); err != nil {
			t.Error(err)
		}
		reset(t, s)
		wantError(t, s.Save(&bytes.Buffer{}), "the session is empty")
	})
}

// FuzzRestore gives changed files the right sum, so that all checks behind it are reached, and uses what is accepted.
func FuzzRestore(f *testing.F) {
	d := drivers.Open(f, drivers.Names()[0], false)
	s, file := savedSmall(f, d)
	n := int(binary.LittleEndian.Uint32(file[12:]))
	f.Add(uint32(16+n+savedSlots), uint32(39), uint32(16+n), uint32(7))
	f.Add(uint32(16+n+savedHead), uint32(1<<31), uint32(20), uint32(0x22222222))
	f.Add(uint32(12), uint32(n-1), uint32(16+n+savedSlots+24*8), uint32(0x7fc00000))
	f.Fuzz(func(t *testing.T, at, value, at2, value2 uint32) {
		b := slices.Clone(file[:len(file)-sha256.Size])
		binary.LittleEndian.PutUint32(b[int(at)%(len(b)-3):], value)
		binary.LittleEndian.PutUint32(b[int(at2)%(len(b)-3):], value2)
		sum := sha256.Sum256(b)
		if err := s.Restore(bytes.NewReader(append(b, sum[:]...))); err != nil {
			return
		}
		if err := s.Prompt(t.Context(), []int32{1, 2, 3}, model.Observer{}, nil); err != nil {
			t.Fatal(err)
		}
	})
}
