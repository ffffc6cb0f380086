package runtime

import (
	"context"
	"fmt"
	"io"
	"slices"

	"vkdecode/vk"
)

// Tensor is a piece of device memory that is planned before it exists.
type Tensor struct {
	Name  string // "kv.k.3": the part before the first dot is its class
	Bytes int64
	Use   vk.Use // who touches it; Local unless set before Allocate
	vk.Range
	parts []*Tensor // that it is made of, see Together
}

// Arena plans device memory, then allocates exactly what was planned.
type Arena struct {
	tensors []*Tensor
}

// Tensor plans a tensor of so many bytes, rounded up to 16. It has no memory until Allocate.
func (a *Arena) Tensor(name string, bytes int64) *Tensor {
	t := &Tensor{Name: name, Bytes: max(bytes+15, 16) &^ 15}
	a.tensors = append(a.tensors, t)
	return t
}

// PartAlign is where tensors that are put together begin, in bytes: at a multiple of what any device asks of a binding.
const PartAlign = 256

// Together puts planned tensors side by side into one buffer. The tensor it returns is all of them, so that a kernel can
// reach each by its offset.
func (a *Arena) Together(name string, tensors ...*Tensor) *Tensor {
	whole := &Tensor{Name: name, parts: tensors}
	for _, t := range tensors {
		t.Bytes = (t.Bytes + PartAlign - 1) &^ (PartAlign - 1)
		whole.Bytes += t.Bytes
	}
	a.tensors = slices.DeleteFunc(a.tensors, func(t *Tensor) bool { return slices.Contains(tensors, t) })
	a.tensors = append(a.tensors, whole)
	return whole
}

// Bytes is the planned size of the tensors whose name begins with prefix.
func (a *Arena) Bytes(prefix string) (sum int64) {
	for _, t := range a.tensors {
		if len(t.Name) >= len(prefix) && t.Name[:len(prefix)] == prefix {
			sum += t.Bytes
		}
	}
	return sum
}

// BytesIn is the planned size of the tensors of a use.
func (a *Arena) BytesIn(use vk.Use) (sum int64) {
	for _, t := range a.tensors {
		if t.Use == use {
			sum += t.Bytes
		}
	}
	return sum
}

// Allocate gives every planned tensor its memory, zeroed, and checks that the device holds what was planned. It stops
// between two tensors when ctx ends.
func (a *Arena) Allocate(ctx context.Context, d *vk.Device) error {
	before := d.Held()
	for _, t := range a.tensors {
		if err := ctx.Err(); err != nil {
			a.Free()
			return err
		}
		b, err := d.NewBuffer(t.Name, t.Bytes, t.Use)
		if err != nil {
			a.Free()
			return fmt.Errorf("runtime: %w", err)
		}
		t.Range = b.All()
		at := int64(0)
		for _, part := range t.parts {
			part.Range = t.Slice(at, part.Bytes)
			at += part.Bytes
		}
		if err := d.Zero(t.Range); err != nil {
			a.Free()
			return fmt.Errorf("runtime: zero %q: %w", t.Name, err)
		}
	}
	if held := d.Held() - before; held != a.Bytes("") {
		return fmt.Errorf("runtime: %d bytes held, %d planned", held, a.Bytes(""))
	}
	return nil
}

// Free gives the memory back. The device must have finished with it.
func (a *Arena) Free() {
	for _, t := range a.tensors {
		if t.Buffer != nil {
			t.Buffer.Free()
			t.Range = vk.Range{}
			for _, part := range t.parts {
				part.Range = vk.Range{}
			}
		}
	}
}

// Print writes one line per class of tensors: bytes and number.
func (a *Arena) Print(w io.Writer) {
	var classes []string
	bytes, count := map[string]int64{}, map[string]int{}
	for _, t := range a.tensors {
		class := t.Name
		if i := slices.Index([]byte(t.Name), '.'); i >= 0 {
			class = t.Name[:i]
		}
		if count[class] == 0 {
			classes = append(classes, class)
		}
		bytes[class] += t.Bytes
		count[class]++
	}
	for _, c := range classes {
		fmt.Fprintf(w, "%-10s %12d bytes in %d tensors\n", c, bytes[c], count[c])
	}
}
