package vk

import "fmt"

// OpKind is what an Op does.
type OpKind int

const (
	Dispatch  OpKind = iota // run Pipeline over X·Y·Z workgroups with Bindings and Push
	Barrier                 // what stands before is finished and seen by what stands after, on the device and the host
	Fill                    // write Value to every 32-bit word of Dst
	Copy                    // copy Src to Dst
	Timestamp               // note the time when all before has finished, as number Query
)

// Op is one operation of a recording.
type Op struct {
	Kind     OpKind
	Name     string // for errors; the pipeline's name if empty
	Pipeline *Pipeline
	Push     []byte    // Module.PushBytes bytes, frozen in the recording
	Bindings []Range   // one for each of Module.Bindings
	X, Y, Z  uint32    // workgroups
	First    [3]uint32 // workgroup along x, y and z; not zero only for a Pipeline made for parts
	Dst, Src Range
	Value    uint32
	Query    uint32 // 0 to the number of timestamps minus 1, each once
}

var kinds = [...]string{Dispatch: "dispatch", Barrier: "barrier", Fill: "fill", Copy: "copy", Timestamp: "timestamp"}

func (k OpKind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return kinds[k]
}

// label names the op in errors: op 3 dispatch "rmsnorm".
func (op *Op) label(i int) string {
	name := op.Name
	if name == "" && op.Pipeline != nil {
		name = op.Pipeline.Module.Name
	}
	if name == "" {
		return fmt.Sprintf("op %d %s", i, op.Kind)
	}
	return fmt.Sprintf("op %d %s %q", i, op.Kind, name)
}

// check reports what is wrong with the op on this device.
func (op *Op) check(d *Device) error {
	switch op.Kind {
	case Dispatch:
		return op.checkDispatch(d)
	case Fill:
		return op.checkFill(d)
	case Copy:
		return op.checkCopy(d)
	case Timestamp:
		if d.Info.Limits.TimestampPeriod == 0 {
			return fmt.Errorf("the device has no timestamps")
		}
	case Barrier:
	default:
		return fmt.Errorf("unknown kind")
	}
	return nil
}

func (op *Op) checkDispatch(d *Device) error {
	if op.Pipeline == nil {
		return fmt.Errorf("no pipeline")
	}
	m := op.Pipeline.Module
	groups := [3]uint32{op.X, op.Y, op.Z}
	for i, g := range groups {
		most := d.Info.Limits.MaxGroups[i]
		if g < 1 || g > most {
			return fmt.Errorf("%d groups along %c, want 1 to %d", g, 'x'+i, most)
		}
		if op.First[i] > most-g {
			return fmt.Errorf("%d groups along %c from %d on, want at most %d before and in it", g, 'x'+i, op.First[i], most)
		}
	}
	switch {
	case op.Pipeline.compiled == nil:
		return fmt.Errorf("the pipeline was freed")
	case op.First != [3]uint32{} && !op.Pipeline.parts:
		return fmt.Errorf("it begins at workgroup %v, and the pipeline was not made for parts", op.First)
	case op.Pipeline.device != d:
		return fmt.Errorf("the pipeline belongs to another device")
	case len(op.Push) != m.PushBytes:
		return fmt.Errorf("%d bytes of push constants, want %d", len(op.Push), m.PushBytes)
	case len(op.Bindings) != len(m.Bindings):
		return fmt.Errorf("%d bindings, want %d", len(op.Bindings), len(m.Bindings))
	}
	for i, r := range op.Bindings {
		if err := d.checkBinding(m.Bindings[i], r); err != nil {
			return fmt.Errorf("binding %d: %w", i, err)
		}
	}
	return nil
}

func (d *Device) checkBinding(b Binding, r Range) error {
	if err := r.check(d); err != nil {
		return err
	}
	l := d.Info.Limits
	multiple := func(what string, got, of int64) error {
		return fmt.Errorf("buffer %q: %s %d, want a multiple of %d", r.Buffer.Name, what, got, of)
	}
	if !b.Texel {
		switch {
		case r.Offset%l.StorageAlign != 0:
			return multiple("offset", r.Offset, l.StorageAlign)
		case r.Size > l.MaxStorageRange:
			return fmt.Errorf("buffer %q: %d bytes in one binding, the device takes %d; bind slices", r.Buffer.Name, r.Size, l.MaxStorageRange)
		}
		return nil
	}
	element := b.Format.Bytes()
	switch {
	case r.Offset%l.TexelAlign != 0:
		return multiple("offset", r.Offset, l.TexelAlign)
	case r.Size%element != 0:
		return multiple("size", r.Size, element)
	case r.Size/element > int64(l.MaxTexelElements):
		return fmt.Errorf("buffer %q: %d texels in one binding, the device takes %d; bind slices", r.Buffer.Name, r.Size/element, l.MaxTexelElements)
	}
	return nil
}

func (op *Op) checkFill(d *Device) error {
	if err := op.Dst.check(d); err != nil {
		return err
	}
	if op.Dst.Offset%4 != 0 || op.Dst.Size%4 != 0 {
		return fmt.Errorf("buffer %q: offset %d and size %d, want multiples of 4", op.Dst.Buffer.Name, op.Dst.Offset, op.Dst.Size)
	}
	return nil
}

func (op *Op) checkCopy(d *Device) error {
	if err := op.Src.check(d); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if err := op.Dst.check(d); err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	switch {
	case op.Src.Size != op.Dst.Size:
		return fmt.Errorf("%d bytes of buffer %q into %d of %q, want as many", op.Src.Size, op.Src.Buffer.Name, op.Dst.Size, op.Dst.Buffer.Name)
	case op.Src.Overlaps(op.Dst):
		return fmt.Errorf("buffer %q: source [%d, +%d) and destination [%d, +%d) overlap",
			op.Src.Buffer.Name, op.Src.Offset, op.Src.Size, op.Dst.Offset, op.Dst.Size)
	}
	return nil
}
