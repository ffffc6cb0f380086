package gguf

// Outline is the file as a reader would see it, but for the data: every tensor has what was added for it, which may be
// nothing at all, and so the file may be larger than any memory.
func (w *Writer) Outline() (*File, error) {
	f, _, err := parseHead(w.Bytes())
	if err != nil {
		return nil, err
	}
	for i, t := range f.tensors {
		t.Data = w.tensors[i].data
	}
	return f, nil
}
