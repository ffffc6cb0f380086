package report

import (
	"math"
	"time"

	"vkdecode/eval"
)

// The sample is what the page is tested with. Its perplexities are measured: an independent implementation on
// SmolLM2-135M-Instruct, the mean of two stretches of 2,048 tokens of War and Peace. The course over positions, KL,
// speeds, needles and questions are made up, and only look like what one would measure.

const (
	sampleModel  = "SmolLM2-135M-Instruct.Q4_1.gguf"
	sampleDevice = "test data, no device"
)

func setting(policy, budget string, slots int) eval.Setting {
	return eval.Setting{Policy: policy, Budget: budget, BudgetSlots: slots, KVType: "f16", Positions: "original", Chunk: 32}
}

func pointer(v float64) *float64 { return &v }

// bytesOf is K and V of 30 layers, 3 heads of 64, f16.
func bytesOf(slots int) int64 { return int64(slots) * 30 * 3 * 64 * 2 * 2 }

// measurement is a row of the reference.
type measurement struct {
	policy                     string
	ppl, afterBudget, lastHalf float64
}

const fullPPL = 22.627357

var measurements = map[int][]measurement{
	410: {
		{"h2o", 23.204252, 22.657621, 21.809278},
		{"h2o:score=guide", 23.442364, 22.948736, 22.152618},
		{"tova", 23.973986, 23.601353, 23.192703},
		{"streaming", 24.043121, 23.686483, 23.174446},
		{"strided", 24.550238, 24.312843, 23.933013},
		{"random", 38.412563, 42.554630, 41.511440},
		{"window", 39.381466, 43.901054, 41.282021},
	},
	614: {
		{"h2o", 22.975945, 22.128759, 21.487196},
		{"h2o:score=guide", 23.041203, 22.218594, 21.539843},
		{"tova", 23.424582, 22.748573, 22.388046},
		{"streaming", 23.650246, 23.062252, 22.839711},
		{"strided", 23.631357, 23.035952, 22.588236},
		{"random", 33.300568, 37.600685, 39.735073},
		{"window", 35.970325, 41.979683, 39.810764},
	},
}

// buckets makes up a course: near that of full until the budget is reached, then as far above it as the whole is.
func buckets(slots int, ppl float64) (bs []eval.Bucket) {
	for i := range 8 {
		begin, end := i*256, (i+1)*256
		full := 20 + 9*math.Exp(-float64(i)/2) + 1.5*math.Sin(float64(2*i))
		if end > slots {
			full *= math.Pow(ppl/fullPPL, 1.25)
		}
		bs = append(bs, eval.Bucket{Begin: begin, End: end, PPL: full})
	}
	return bs
}

func samplePerplexity() []eval.Perplexity {
	row := eval.Perplexity{
		Kind: "ppl", Setting: setting("full", "", 2048), Model: sampleModel, Device: sampleDevice, Text: "war-and-peace.txt",
		Offset: 400000, Tokens: 2048, PPL: fullPPL, PPLLastHalf: 20.898464, Buckets: buckets(2048, fullPPL),
		BytesHeld: bytesOf(2048), BytesFull: bytesOf(2048), TPS: 118.4, Complete: true,
	}
	rows := []eval.Perplexity{row}
	for _, b := range []struct {
		name  string
		slots int
	}{{"20%", 410}, {"30%", 614}} {
		for i, m := range measurements[b.slots] {
			r := row
			r.Setting = setting(m.policy, b.name, b.slots)
			r.PPL, r.PPLAfterBudget, r.PPLLastHalf = m.ppl, pointer(m.afterBudget), m.lastHalf
			r.KL = pointer(0.9 * math.Log(m.ppl/fullPPL))
			r.Buckets = buckets(b.slots, m.ppl)
			r.BytesHeld = bytesOf(b.slots + 32)
			r.TPS = 171.5 - float64(b.slots)/20 - 3.1*float64(i)
			rows = append(rows, r)
		}
	}
	return rows
}

func sampleRecall() (rows []eval.Recall) {
	for _, s := range []eval.Setting{
		setting("full", "", 2048), setting("h2o", "20%", 410), setting("streaming", "20%", 410), setting("window", "20%", 410),
		setting("h2o", "30%", 614), setting("streaming", "30%", 614), setting("window", "30%", 614),
	} {
		for _, context := range []int{512, 1024, 1536, 2048} {
			for d, depth := range []float64{0, 0.25, 0.5, 0.75, 1} {
				kept := float64(s.BudgetSlots) / float64(context)
				found := 10
				switch {
				case s.Policy == "full":
					found -= context / 1024 * (d % 2)
				case 1-depth < kept: // still inside the recent window
				case s.Policy == "h2o":
					found = int(4 + 6*kept)
				default:
					found = int(3 * kept)
				}
				rows = append(rows, eval.Recall{
					Kind: "needle", Setting: s, Model: sampleModel, Device: sampleDevice, Text: "war-and-peace.txt", Context: context,
					Depth: depth, Needles: 10, Found: found, BytesHeld: bytesOf(s.BudgetSlots), Complete: true,
				})
			}
		}
	}
	return rows
}

// interval is Wilson's, at 95 %.
func interval(correct, questions int) (low, high float64) {
	const z = 1.959964
	n, p := float64(questions), float64(correct)/float64(questions)
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (middle - half) / (1 + z*z/n), (middle + half) / (1 + z*z/n)
}

func sampleAccuracy() (rows []eval.Accuracy) {
	for _, x := range []struct {
		setting eval.Setting
		correct int
	}{
		{setting("full", "", 1024), 306}, {setting("h2o", "20%", 205), 301}, {setting("streaming", "20%", 205), 272}, {setting("window", "20%", 205), 141},
		{setting("h2o", "30%", 307), 305}, {setting("streaming", "30%", 307), 283}, {setting("window", "30%", 307), 148},
	} {
		low, high := interval(x.correct, 500)
		rows = append(rows, eval.Accuracy{
			Kind: "qa", Setting: x.setting, Model: sampleModel, Device: sampleDevice, Data: "sciq-test.jsonl", Format: "sciq", Context: 1024,
			Questions: 500, Correct: x.correct, CorrectNormalized: x.correct + 9, Accuracy: float64(x.correct) / 500, Low: low, High: high,
			BytesHeld: bytesOf(x.setting.BudgetSlots), Template: "{context}\n\nQuestion: {question}\nAnswer:", Complete: true,
		})
	}
	return rows
}

func sample() Results {
	return Results{
		Title:      "SmolLM2-135M on War and Peace: test data",
		Command:    "vkdecode eval ppl,needle,qa SmolLM2-135M-Instruct.Q4_1.gguf -f war-and-peace.txt --kv full,h2o,h2o:score=guide,tova,streaming,strided,random,window --budget 20%,30% --ctx 2048 --json",
		Version:    "v0.0.0-test",
		When:       time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC),
		Perplexity: samplePerplexity(), Recall: sampleRecall(), Accuracy: sampleAccuracy(),
	}
}
