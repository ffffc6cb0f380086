package doctor

import (
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"vkdecode/h2o"
)

// referenceJSON is what tests/reference/doctor.py wrote.
//
//go:embed reference.json
var referenceJSON []byte

// reference is what a float64 implementation says of the built-in model and a prompt. K and V are rounded as each cache
// type does it, so that a device is judged by its arithmetic and not by the steps of a type.
type reference struct {
	Model      string            `json:"model"`
	SHA256     string            `json:"sha256"` // of the model
	Arithmetic string            `json:"arithmetic"`
	IDs        []int32           `json:"ids"`
	Positions  []int             `json:"positions"` // whose logits there are
	Logits     map[string]floats `json:"logits"`    // by cache type: (positions, vocab)
	Policies   []policyRun       `json:"policies"`
}

// policyRun is what a policy keeps and evicts of the prompt.
type policyRun struct {
	Policy        h2o.Spec       `json:"policy"`
	Type          string         `json:"type"` // of K and V
	Budget        h2o.Budget     `json:"budget"`
	RecentRatio   float64        `json:"recent_ratio"`
	Chunk         int            `json:"chunk"`
	LastPositions []int          `json:"last_positions"` // of every step that evicted
	Victims       [][][][]uint32 `json:"victims"`        // by such a step, layer, KV head: positions, ascending
	Gap           float64        `json:"gap"`            // smallest relative distance between scores that decided
	Kept          [][]keptHead   `json:"kept"`           // by layer and KV head, at the end
}

// keptHead are the scores of tokens that stay in a KV head; where the policy gives some without telling, not of all.
type keptHead struct {
	Positions []uint32  `json:"positions"`
	Scores    []float64 `json:"scores"`
}

// floats are little-endian f32 values, in base64.
type floats []float32

func (f *floats) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return fmt.Errorf("doctor: %d bytes of f32 values: %v", len(raw), err)
	}
	for i := 0; i < len(raw); i += 4 {
		*f = append(*f, math.Float32frombits(binary.LittleEndian.Uint32(raw[i:])))
	}
	return nil
}

func parseReference(data []byte) (*reference, error) {
	r := new(reference)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("doctor: reference: %w", err)
	}
	return r, nil
}
