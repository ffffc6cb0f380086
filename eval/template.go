package eval

import (
	"strings"

	"vkdecode/eval/data"
)

// Mode is how an option of a question is judged.
type Mode string

const (
	ByText   Mode = "text"   // the options are not shown, each is looked at as the answer
	ByLetter Mode = "letter" // the options are shown with letters, the letters are looked at as the answer
)

// template is how a question is put.
type template struct {
	mode      Mode
	continues bool // the options go on with the text
	ahead     bool // the passage comes before the context, not behind it
}

// passage is what stands before the context for one question.
func (t template) passage(q data.Question) string {
	if !t.ahead {
		return ""
	}
	return q.Passage
}

// ask is the question up to the answer.
func (t template) ask(q data.Question) string {
	var b strings.Builder
	if q.Passage != "" && !t.ahead {
		b.WriteString(q.Passage + "\n")
	}
	if t.continues && t.mode == ByText {
		b.WriteString(q.Text)
		return b.String()
	}
	b.WriteString("Question: " + q.Text + "\n")
	if t.mode == ByLetter {
		for i, option := range q.Options {
			b.WriteString(data.Letter(i) + ". " + option + "\n")
		}
	}
	b.WriteString("Answer:")
	return b.String()
}

// answer is what follows ask if an option is chosen.
func (t template) answer(q data.Question, option int) string {
	if t.mode == ByLetter {
		return " " + data.Letter(option)
	}
	return " " + q.Options[option]
}

// weight is the length of an answer, in bytes, by which its log-probability is divided.
func (t template) weight(q data.Question, option int) float64 {
	return float64(len(t.answer(q, option)) - len(" "))
}

// example is a question with its right answer.
func (t template) example(q data.Question) string {
	text := t.ask(q)
	if t.ahead && q.Passage != "" {
		text = q.Passage + "\n" + text
	}
	for i, right := range q.Right {
		if right {
			return text + t.answer(q, i)
		}
	}
	return text
}

// gap stands between the parts of a prompt.
const gap = "\n\n"

// String writes the template with names for what varies; the bar stands before what is judged.
func (t template) String() string {
	q := data.Question{Passage: "{passage}", Text: "{question}", Options: []string{"{option}", "…"}}
	answer := t.answer(data.Question{Options: []string{"{option}"}}, 0)
	if t.mode == ByLetter {
		answer = " {letter}"
	}
	parts := []string{t.passage(q), "{context}", "{examples}", t.ask(q) + "|" + answer}
	if parts[0] == "" {
		parts = parts[1:]
	}
	return strings.Join(parts, gap)
}
