package tokenizer

// trie finds added tokens in text, byte by byte. The zero value holds none.
type trie struct {
	nodes []node // the first is the root
	first [256]bool
}

type node struct {
	next map[byte]int32 // index of the node after one more byte
	id   int32          // the token that ends here, -1 = none
}

// add enters a token; of two with the same text the earlier stays.
func (t *trie) add(text string, id int32) {
	if text == "" {
		return
	}
	if len(t.nodes) == 0 {
		t.nodes = []node{{id: -1}}
	}
	t.first[text[0]] = true
	at := int32(0)
	for i := range len(text) {
		next, ok := t.nodes[at].next[text[i]]
		if !ok {
			next = int32(len(t.nodes))
			if t.nodes[at].next == nil {
				t.nodes[at].next = make(map[byte]int32)
			}
			t.nodes[at].next[text[i]] = next
			t.nodes = append(t.nodes, node{id: -1})
		}
		at = next
	}
	if t.nodes[at].id < 0 {
		t.nodes[at].id = id
	}
}

// find is the leftmost, then longest added token: text[start:end] is token id.
// Without any it is start = end = len(text), id = -1.
func (t *trie) find(text string) (start, end int, id int32) {
	for start = range len(text) {
		if !t.first[text[start]] {
			continue
		}
		id, at := int32(-1), int32(0)
		for i := start; i < len(text); i++ {
			next, ok := t.nodes[at].next[text[i]]
			if !ok {
				break
			}
			at = next
			if t.nodes[at].id >= 0 {
				id, end = t.nodes[at].id, i+1
			}
		}
		if id >= 0 {
			return start, end, id
		}
	}
	return len(text), len(text), -1
}
