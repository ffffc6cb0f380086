package ref

import "math"

// Epilogue is what follows the product p, as in matmul.comp.
type Epilogue int

const (
	Store    Epilogue = iota // y = p
	AddRes                   // y = res + p
	SiluPair                 // y = silu(gate) up; p is the gates, then the ups
	SiluMul                  // y = silu(p) res
)

// MatMul is y = epilogue(w x + bias) for one activation row, which may be normed (RMSNorm). w is (rows, len(x)); bias may
// be nil, res where it is not used.
func MatMul(w, x []float64, bias, res []float32, e Epilogue) []float64 {
	columns := len(x)
	p := make([]float64, len(w)/columns)
	for i := range p {
		p[i] = dot(w[i*columns:(i+1)*columns], x)
		if bias != nil {
			p[i] += float64(bias[i])
		}
	}
	switch e {
	case AddRes:
		for i := range p {
			p[i] += float64(res[i])
		}
	case SiluMul:
		for i := range p {
			p[i] = silu(p[i]) * float64(res[i])
		}
	case SiluPair:
		half := len(p) / 2
		for i := range half {
			p[i] = silu(p[i]) * p[half+i]
		}
		p = p[:half]
	}
	return p
}

func silu(v float64) float64 { return v / (1 + math.Exp(-v)) }
