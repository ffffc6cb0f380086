package runtime_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// chain plans three rows of x, y, z and a program that computes y = norm(x), z = norm(y), and w = norm(x) beside them.
func chain(t *testing.T, d *vk.Device) (*runtime.Program, *runtime.Arena, map[string]*runtime.Tensor) {
	e, a := runtime.NewEngine(d), &runtime.Arena{}
	tensors := map[string]*runtime.Tensor{"step": a.Tensor("step", runtime.StepBytes), "weights": a.Tensor("weights", 64*4)}
	for _, name := range []string{"x", "y", "z", "w"} {
		tensors[name] = a.Tensor(name, 3*64*4)
	}
	if err := a.Allocate(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Free)
	p := e.NewProgram("chain")
	t.Cleanup(p.Free)
	norm := func(from, to string) {
		p.Dispatch(shaders.RmsNorm{Lanes: uint32(e.Tuning.Lanes), Width: 64, Quads: 16, Eps: 1e-5,
			Step: tensors["step"].Range, X: tensors[from].Range, W: tensors["weights"].Range, Y: tensors[to].Range}, e.Variant("", ""), 1, 3, 1)
	}
	norm("x", "y")
	norm("x", "w")
	norm("y", "z")
	norm("x", "w")
	return p, a, tensors
}

func TestBarriersStandWhereWhatWasWrittenIsTouched(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		p, _, _ := chain(t, d)
		var b strings.Builder
		p.Print(&b)
		var got []string
		for line := range strings.Lines(b.String()) {
			got = append(got, strings.Fields(line)[0][:2])
		}
		// y and w are independent; z needs y; w is written again only after its first writing.
		if want := "rm rm -- rm rm"; strings.Join(got, " ") != want {
			t.Errorf("graph %q, want %q\n%s", strings.Join(got, " "), want, b.String())
		}
	})
}

// Two chains from one x: what waits in one waits in the other at the same time.
func TestProgramsBesideEachOtherWaitTogether(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		one, _, _ := chain(t, d)
		other, _, _ := chain(t, d)
		p := runtime.NewEngine(d).NewProgram("both")
		p.Beside(one, other)
		for want, p := range map[string]*runtime.Program{"rm rm rm rm -- rm rm rm rm": p, "rm rm -- rm rm": one} {
			var b strings.Builder
			p.Print(&b)
			var got []string
			for line := range strings.Lines(b.String()) {
				got = append(got, strings.Fields(line)[0][:2])
			}
			if strings.Join(got, " ") != want {
				t.Errorf("graph %q, want %q", strings.Join(got, " "), want)
			}
		}
		broken := runtime.NewEngine(d).NewProgram("broken")
		broken.Dispatch(shaders.Matmul{}, runtime.NewEngine(d).Variant("no such type", ""), 1, 1, 1)
		p.Beside(one, broken)
		if err := p.Record(t.Context()); err == nil {
			t.Error("a program that cannot be recorded is, beside another")
		}
	})
}

func TestReplayReadsTheStepOfTheMoment(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		p, _, tensors := chain(t, d)
		if err := p.Record(t.Context()); err != nil {
			t.Fatal(err)
		}
		ones := make([]byte, 3*64*4)
		for i := range 3 * 64 {
			binary.LittleEndian.PutUint32(ones[4*i:], 0x3f800000)
		}
		for name, n := range map[string]int{"x": 3 * 64 * 4, "weights": 64 * 4} {
			if err := d.Write(tensors[name].Range, ones[:n]); err != nil {
				t.Fatal(err)
			}
		}
		step := runtime.NewStep(d, tensors["step"])
		for rows := 1; rows <= 3; rows++ {
			if err := d.Zero(tensors["z"].Range); err != nil {
				t.Fatal(err)
			}
			if err := step.Write(make([]runtime.Row, rows), nil, 0); err != nil {
				t.Fatal(err)
			}
			submit(t, d, p)
			if got := nonzero(t, d, tensors["z"]); got != rows*64 {
				t.Errorf("%d rows in the step: %d numbers written, want %d", rows, got, rows*64)
			}
		}
	})
}

func submit(t *testing.T, d *vk.Device, p *runtime.Program) {
	t.Helper()
	commands, err := p.Commands()
	if err != nil {
		t.Fatal(err)
	}
	pending, err := d.Submit(commands...)
	if err != nil {
		t.Fatal(err)
	}
	if err := pending.Wait(runtime.Patience); err != nil {
		t.Fatal(err)
	}
}

func nonzero(t *testing.T, d *vk.Device, x *runtime.Tensor) (n int) {
	t.Helper()
	b := make([]byte, x.Bytes)
	if err := d.Read(b, x.Range); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(b); i += 4 {
		if binary.LittleEndian.Uint32(b[i:]) != 0 {
			n++
		}
	}
	return n
}

func TestProgramKeepsTheFirstError(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		e := runtime.NewEngine(d)
		p := e.NewProgram("bad")
		p.Dispatch(shaders.Embed{}, e.Variant("q9_9", ""), 1, 1, 1)
		if err := p.Record(t.Context()); err == nil || !strings.Contains(err.Error(), "q9_9") {
			t.Errorf("error %v, want one that names the weight type", err)
		}
	})
}

func TestArenaHoldsWhatItPlanned(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		before := d.Held()
		a := &runtime.Arena{}
		a.Tensor("kv.k", 1000)
		a.Tensor("kv.v", 24)
		a.Tensor("scratch", 1)
		if got := a.Bytes("kv."); got != 1008+32 {
			t.Errorf("planned %d bytes of kv, want 1040", got)
		}
		if err := a.Allocate(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if got := d.Held() - before; got != a.Bytes("") {
			t.Errorf("%d bytes held, %d planned", got, a.Bytes(""))
		}
		a.Free()
		if got := d.Held(); got != before {
			t.Errorf("%d bytes held after Free, %d before", got, before)
		}
	})
}

func TestStepRefusesRowsOfASequenceThatLieApart(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		a := &runtime.Arena{}
		tensor := a.Tensor("step", runtime.StepBytes)
		if err := a.Allocate(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		defer a.Free()
		step := runtime.NewStep(d, tensor)
		if err := step.Write([]runtime.Row{{Seq: 1}, {Seq: 0}, {Seq: 1}}, nil, 0); err == nil {
			t.Error("rows 1, 0, 1 were taken")
		}
		if err := step.Write([]runtime.Row{{Seq: 1}, {Seq: 1}, {Seq: 0}}, nil, 0); err != nil {
			t.Error(err)
		}
		if err := step.Write(make([]runtime.Row, runtime.StepRows+1), nil, 0); err == nil {
			t.Error("too many rows were taken")
		}
	})
}
