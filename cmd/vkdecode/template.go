package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// render applies a model's chat template the way Hugging Face's
// apply_chat_template does: blocks trimmed, tools and documents none,
// raise_exception and strftime_now at hand. With addGenerationPrompt the text
// ends where the assistant's turn begins.
func render(template string, messages []Message, bos, eos string, addGenerationPrompt bool) (text string, err error) {
	defer func() { // a template comes with the model: it must not take the program down
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("template: the model's chat template broke the engine (%v); try --raw", r)
		}
	}()
	compiled, err := jinja.Compile(template)
	if err != nil {
		return "", fmt.Errorf("template: the model's chat template cannot be read (%w); try --raw", err)
	}
	var turns []jinja.Value
	for _, m := range messages {
		turn := jinja.NewDict()
		turn.AsDict().Set("role", jinja.NewString(m.Role))
		turn.AsDict().Set("content", jinja.NewString(m.Content))
		turns = append(turns, turn)
	}
	text, err = compiled.RenderValues(map[string]jinja.Value{
		"messages":              jinja.NewList(turns),
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
		"add_generation_prompt": jinja.NewBool(addGenerationPrompt),
		"bos_token":             jinja.NewString(bos),
		"eos_token":             jinja.NewString(eos),
	})
	if err != nil {
		return "", fmt.Errorf("template: the model's chat template refuses the conversation (%w); try --raw", err)
	}
	return text, nil
}

// renderNext is what a template puts behind a reply when another question follows: the end of the reply, the question and
// the beginning of the next reply.
func renderNext(template, question, bos, eos string) (string, error) {
	const reply = "what was said before" // a template may cut spaces at its ends
	text, err := render(template, []Message{{"user", "?"}, {"assistant", reply}, {"user", question}}, bos, eos, true)
	if err != nil {
		return "", err
	}
	_, next, found := strings.Cut(text, reply)
	if !found {
		return "", errors.New("template: the model's chat template drops earlier replies, a conversation cannot go on from a session; try --raw")
	}
	return next, nil
}
