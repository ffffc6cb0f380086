package eval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"vkdecode/eval/data"
	"vkdecode/h2o"
)

// QAOptions are what is asked, and of which caches.
type QAOptions struct {
	Model, ModelHash, Device string // for the results
	Data                     *data.Set
	Settings                 []h2o.Settings // the policies and budgets
	Context                  *Text          // a text that is read before each question, so that there is something to evict; may be nil
	ContextTokens            int            // how much of it
	Mode                     Mode
	PassageAhead             bool // a question's passage comes before the context, where it must be kept, not behind it
	Shots                    int  // examples with their answers before a question: the set's own, else its first questions, which are not asked then
	Limit                    int  // questions at most, 0 = all
	Seed                     uint64
	Known                    func(Accuracy) (Accuracy, bool) // finds the result that one without figures will become, if it is there already; may be nil
	Progress                 func(done, total int)           // questions; may be nil
}

// Exam asks multiple-choice questions: the option of largest log-probability is taken as the model's answer, by the sum
// over its tokens and by the sum divided by its bytes. The context and the examples are processed, and evicted from,
// before the question begins.
type Exam struct {
	QAOptions
	subject  Subject
	template template
	tasks    []task
	ahead    int // tokens before a question
	longest  int // tokens of the longest prompt with its answer
	done     int // questions
}

// task is a question as it is put to the model.
type task struct {
	prompt  Prompt
	answers [][]int32 // by option
	weights []float64 // by option: bytes
	right   []bool    // by option
}

// NewExam encodes the questions, and refuses what cannot be judged, before anything is opened.
func NewExam(s Subject, o QAOptions) (*Exam, error) {
	x := &Exam{QAOptions: o, subject: s, template: template{mode: o.Mode, continues: o.Data.Continues, ahead: o.PassageAhead}}
	switch {
	case o.Mode != ByText && o.Mode != ByLetter:
		return nil, fmt.Errorf("eval: qa: mode %q, want %s or %s", o.Mode, ByText, ByLetter)
	case o.Shots < 0 || o.Limit < 0 || o.ContextTokens < 0:
		return nil, fmt.Errorf("eval: qa: %d examples, %d questions, %d tokens of context; want none below 0", o.Shots, o.Limit, o.ContextTokens)
	case len(o.Settings) == 0:
		return nil, fmt.Errorf("eval: qa: no settings")
	}
	questions, examples := x.questions()
	if len(examples) < o.Shots || len(questions) == 0 {
		return nil, fmt.Errorf("eval: qa: %s has %d questions and %d examples, too few for %d examples and a question", o.Data.Name, len(o.Data.Questions), len(o.Data.Examples), o.Shots)
	}
	before, err := x.text()
	if err != nil {
		return nil, err
	}
	shared := slices.Concat(s.Begin(), before, x.examples(examples, len(before) > 0))
	x.ahead = len(shared)
	for _, q := range questions {
		t := x.task(q, shared, before, examples)
		for i, answer := range t.answers {
			if len(answer) == 0 {
				return nil, fmt.Errorf("eval: qa: %s: line %d: the model has no token for option %s", o.Data.Name, q.Line, data.Letter(i))
			}
			x.longest = max(x.longest, t.prompt.Tokens()+len(answer))
		}
		if t.prompt.Tokens() == 0 {
			return nil, fmt.Errorf("eval: qa: %s: line %d: the model has no token for the question", o.Data.Name, q.Line)
		}
		x.tasks = append(x.tasks, t)
	}
	for _, kv := range o.Settings {
		if _, err := s.Setting(kv, x.longest); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Template is how a question is put: {context} and {examples} stand for nothing where there are none, and what is judged
// comes behind the bar.
func (x *Exam) Template() string { return x.template.String() }

// Questions is how many are asked.
func (x *Exam) Questions() int { return len(x.tasks) }

// Tokens are those of the longest prompt with its answer.
func (x *Exam) Tokens() int { return x.longest }

// Spared tells that a policy which evicts does so too late to change any answer: after the last token that is judged.
func (x *Exam) Spared(kv h2o.Settings) bool {
	policy, err := h2o.Find(kv.Policy)
	setting, failed := x.subject.Setting(kv, x.longest)
	if err != nil || failed != nil || !policy.Evicts {
		return false
	}
	for _, t := range x.tasks {
		shared, own := len(t.prompt.Shared), len(t.prompt.Own)
		seen := shared // tokens when the cache is cut back for the last time before the first token of an answer is judged
		if own > 0 {
			seen += (own - 1) / setting.Chunk * setting.Chunk
		}
		for _, answer := range t.answers {
			if len(answer) > 1 { // and before the others, it is after each step
				seen = max(seen, shared+own+len(answer)-2)
			}
		}
		if seen > setting.BudgetSlots {
			return false
		}
	}
	return true
}

// Judge asks all questions under all settings. emit gets a result for each setting and whether it was known; when ctx
// ends, also the one that is not complete.
func (x *Exam) Judge(ctx context.Context, emit func(r Accuracy, known bool) error) error {
	for _, kv := range x.Settings {
		if err := x.judge(ctx, kv, emit); err != nil {
			return err
		}
	}
	return nil
}

// questions chooses what is asked and what is shown, with the options shuffled where the data has the right one first.
func (x *Exam) questions() (questions, examples []data.Question) {
	all := slices.Concat(x.Data.Examples, x.Data.Questions)
	if x.Data.RightFirst {
		for i, q := range all {
			q.Options, q.Right = slices.Clone(q.Options), slices.Clone(q.Right)
			rand.New(rand.NewPCG(x.Seed, shuffleStream+uint64(i))).Shuffle(len(q.Options), func(a, b int) {
				q.Options[a], q.Options[b] = q.Options[b], q.Options[a]
				q.Right[a], q.Right[b] = q.Right[b], q.Right[a]
			})
			all[i] = q
		}
	}
	shots := min(x.Shots, len(all))
	examples, questions = all[:shots], all[max(shots, len(x.Data.Examples)):]
	if x.Limit > 0 {
		questions = questions[:min(x.Limit, len(questions))]
	}
	return questions, examples
}

// text is the context in tokens.
func (x *Exam) text() ([]int32, error) {
	if x.ContextTokens == 0 || x.Context == nil {
		return nil, nil
	}
	text := x.Context.content
	// A token seldom has more than a few bytes: no need to encode a whole book.
	const bytesPerToken = 32
	tokens := x.subject.Encode(text[:min(len(text), x.ContextTokens*bytesPerToken)])
	if len(tokens) < x.ContextTokens && len(text) > x.ContextTokens*bytesPerToken {
		tokens = x.subject.Encode(text)
	}
	if len(tokens) < x.ContextTokens {
		return nil, fmt.Errorf("eval: qa: the context %s has %d tokens, want %d; give a longer text or ask for fewer", x.Context.Name, len(tokens), x.ContextTokens)
	}
	return tokens[:x.ContextTokens], nil
}

// examples are the examples in tokens; follows tells that something stands before them.
func (x *Exam) examples(examples []data.Question, follows bool) (tokens []int32) {
	for _, q := range examples {
		text := x.template.example(q)
		if follows {
			text = gap + text
		}
		tokens = append(tokens, x.subject.Encode(text)...)
		follows = true
	}
	return tokens
}

// task puts a question.
func (x *Exam) task(q data.Question, shared, before []int32, examples []data.Question) task {
	follows := len(before) > 0 || len(examples) > 0
	if ahead := x.template.passage(q); ahead != "" {
		if len(before) > 0 {
			ahead += gap
		}
		shared = slices.Concat(x.subject.Begin(), x.subject.Encode(ahead), before, x.examples(examples, true))
		follows = true
	}
	text := x.template.ask(q)
	if follows {
		text = gap + text
	}
	t := task{prompt: Prompt{Shared: shared, Own: x.subject.Encode(text)}, right: q.Right}
	for i := range q.Options {
		t.answers = append(t.answers, x.subject.Encode(x.template.answer(q, i)))
		t.weights = append(t.weights, x.template.weight(q, i))
	}
	return t
}

// judge asks all questions under one setting.
func (x *Exam) judge(ctx context.Context, kv h2o.Settings, emit func(Accuracy, bool) error) (err error) {
	result := Accuracy{Kind: "qa", Origin: Origin{x.ModelHash, x.Data.Hash}, Model: x.Model, Device: x.Device, Data: x.Data.Name, Format: x.Data.Format,
		BadRows: x.Data.Left, Context: x.ahead, Mode: x.Mode, Shots: x.Shots, Seed: x.Seed, Template: x.Template()}
	if x.ContextTokens > 0 && x.Context != nil {
		result.ContextText, result.ContextHash = x.Context.Name, x.Context.Hash
	}
	if result.Setting, err = x.subject.Setting(kv, x.longest); err != nil {
		return err
	}
	if x.Known != nil {
		if known, ok := x.Known(result); ok {
			x.progress(len(x.tasks))
			return emit(known, true)
		}
	}
	scorer, err := x.subject.Open(ctx, kv, x.longest)
	if err != nil {
		return err
	}
	defer scorer.Close()
	result.BytesHeld = scorer.Held()
	for _, t := range x.tasks {
		var scores []Continuation
		if scores, err = scorer.Score(ctx, t.prompt, t.answers); err != nil {
			break
		}
		result.count(t, scores)
		x.progress(1)
	}
	result.Complete = err == nil
	if err == nil || ctx.Err() != nil && result.Questions > 0 {
		if e := emit(result, false); e != nil {
			return e
		}
	}
	return err
}

// count adds a question's answer; of equally likely options the first is the answer.
func (r *Accuracy) count(t task, scores []Continuation) {
	best, normalized := 0, 0
	for i, s := range scores {
		if s.LogProb > scores[best].LogProb {
			best = i
		}
		if s.LogProb/t.weights[i] > scores[normalized].LogProb/t.weights[normalized] {
			normalized = i
		}
	}
	r.Questions++
	if t.right[best] {
		r.Correct++
	}
	if t.right[normalized] {
		r.CorrectNormalized++
	}
	r.Accuracy = float64(r.Correct) / float64(r.Questions)
	r.Low, r.High = wilson(r.Correct, r.Questions)
}

// progress counts questions.
func (x *Exam) progress(questions int) {
	x.done += questions
	if x.Progress != nil {
		x.Progress(x.done, len(x.Settings)*len(x.tasks))
	}
}
