package report

import (
	"fmt"
)

func (g *passage) section(l legend, n names) section {
	s := section{Heading: "Perplexity"}
	where := ""
	if g.offset > 0 {
		where = fmt.Sprintf(" from byte %s on", integer(g.offset))
	}
	if g.text != "" {
		s.Heading += " of " + short(g.text, 60) + where
	}
	s.Lead = join(counted(g.tokens, "token")+".", n.of(g.model, g.device), g.varying.common)
	s.Finding = g.finding()
	s.Figures = []*figure{g.byBudget(l), g.memory(l), g.byPosition(l, false), g.byPosition(l, true)}
	s.Table = g.settingsTable()
	return s
}

func (g *passage) finding() string {
	var entries []entry
	for _, r := range g.rows {
		if isFull(r.Setting) || !r.Complete || r.PPL <= 0 {
			continue
		}
		text := number(r.PPL, 4)
		if up := g.increase(r); drawable(up) {
			text += " (" + increase(up) + ")"
		}
		entries = append(entries, entry{budget(r.Setting), g.varying.series(r.Setting), r.PPL, text})
	}
	text := winners("Lowest perplexity", "Perplexity", entries, lower)
	if text != "" && g.full != nil {
		text += " The full cache has " + number(g.full.PPL, 4) + "."
	}
	return text
}

func (h *haystack) section(n names) section {
	s := section{Heading: "Needle recall"}
	if h.text != "" {
		s.Heading += " in " + short(h.text, 60)
	}
	s.Lead = join("Facts hidden in a text, asked for at its end.", n.of(h.model, h.device), h.varying.common)
	s.Finding = h.finding()
	s.Figures = []*figure{h.recallFigure()}
	return s
}

func (e *exam) section(l legend, n names) section {
	s := section{Heading: "Question answering"}
	if e.data != "" {
		s.Heading += ": " + short(e.data, 60)
	}
	what := "Multiple-choice questions"
	if e.format != "" {
		what += ", format " + short(e.format, 40)
	}
	if e.context > 0 {
		what += fmt.Sprintf(", each after %s of context", counted(e.context, "token"))
	}
	s.Lead = join(what+".", n.of(e.model, e.device), e.varying.common)
	s.Finding = e.finding()
	s.Figures = []*figure{e.figure(l)}
	s.Table = e.table()
	s.Quote = cleanLines(e.template)
	return s
}
