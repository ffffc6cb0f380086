package report

import (
	"fmt"
	"math"
	"slices"

	"vkdecode/eval"
)

// exam is the accuracy over one set of questions: figures that may be compared.
type exam struct {
	model, device, data, format, template string
	context                               int
	varying                               varying
	full                                  *eval.Accuracy   // the reference; nil if it was not measured
	rows                                  []*eval.Accuracy // full first, then by budget
}

// exams puts together what may be compared, in order of appearance. The number of questions is not asked to agree: the
// interval says how much that matters, and the table has it.
func exams(rows []eval.Accuracy) []*exam {
	var all []*exam
	for i := range rows {
		r := &rows[i]
		at := slices.IndexFunc(all, func(e *exam) bool {
			return e.model == r.Model && e.device == r.Device && e.data == r.Data && e.format == r.Format &&
				e.template == r.Template && e.context == r.Context
		})
		if at < 0 {
			at = len(all)
			all = append(all, &exam{r.Model, r.Device, r.Data, r.Format, r.Template, r.Context, varying{}, nil, nil})
		}
		all[at].rows = append(all[at].rows, r)
	}
	for _, e := range all {
		var settings []eval.Setting
		for _, r := range e.rows {
			settings = append(settings, r.Setting)
			if isFull(r.Setting) && r.Complete && e.full == nil {
				e.full = r
			}
		}
		e.varying = differences(settings)
		sortBySetting(e.rows, func(r *eval.Accuracy) eval.Setting { return r.Setting })
	}
	return all
}

func (e *exam) figure(l legend) *figure {
	p := dots{label: "Accuracy of each setting with its interval; the figures are in the table.", title: "questions answered rightly", share: true}
	last, reference := "", ""
	if e.full != nil {
		reference = "Dashed and shaded: the full cache."
	}
	for _, r := range e.rows {
		if !r.Complete {
			continue
		}
		name := e.varying.series(r.Setting)
		if at := budget(r.Setting); !isFull(r.Setting) && at != last {
			p.rows = append(p.rows, dot{heading: at})
			last = at
		}
		p.rows = append(p.rows, dot{
			name: name, style: l.of(name, isFull(r.Setting)), value: r.Accuracy, low: r.Low, high: r.High, text: percent(r.Accuracy),
			title: fmt.Sprintf("%s: %s, %s to %s, %s of %s", e.varying.title(r.Setting), percent(r.Accuracy), percent(r.Low),
				percent(r.High), integer(r.Correct), integer(r.Questions)),
		})
	}
	d, dropped, xs := p.draw()
	if xs == nil {
		return nil
	}
	return &figure{
		Title: "Accuracy",
		Note: join("Bars: 95% Wilson intervals.", reference, "Where intervals overlap much, this many questions do not tell the policies apart.",
			omitted(dropped)),
		Groups: single(d),
	}
}

func (e *exam) table() *table {
	type A = *eval.Accuracy
	full := math.NaN()
	if e.full != nil {
		full = e.full.Accuracy
	}
	return newTable("Accuracy by policy and budget", "Normalized: answers chosen by log-likelihood per byte.",
		e.rows, func(a A) eval.Setting { return a.Setting }, func(a A) string { return e.varying.series(a.Setting) },
		func(a A) bool { return a.Complete }, []column[A]{
			countOf("slots", func(a A) float64 { return measured(float64(a.BudgetSlots)) }),
			shareOf("accuracy", higher, func(a A) float64 { return a.Accuracy }),
			{"95% interval", neither, func(a A) float64 { return measured(a.High) }, func(a A) string {
				return percent(a.Low) + " to " + percent(a.High)
			}},
			{"points against full", neither, func(a A) float64 { return (a.Accuracy - full) * 100 }, func(a A) string {
				if a == e.full {
					return "reference"
				}
				if v := (a.Accuracy - full) * 100; drawable(v) {
					return plus(fixed(v, 1))
				}
				return absent
			}},
			countOf("correct", func(a A) float64 { return float64(a.Correct) }),
			countOf("correct, normalized", func(a A) float64 { return measured(float64(a.CorrectNormalized)) }),
			countOf("questions", func(a A) float64 { return float64(a.Questions) }),
			{"K and V, MiB", lower, func(a A) float64 { return measured(float64(a.BytesHeld)) }, func(a A) string {
				return mebibytes(measured(float64(a.BytesHeld)))
			}},
		})
}

func (e *exam) finding() string {
	var entries []entry
	full := ""
	for _, r := range e.rows {
		switch {
		case !r.Complete:
		case r == e.full:
			full = " The full cache has " + percent(r.Accuracy) + "."
		case !isFull(r.Setting):
			entries = append(entries, entry{budget(r.Setting), e.varying.series(r.Setting), r.Accuracy, percent(r.Accuracy)})
		}
	}
	text := winners("Highest accuracy", "Accuracy", entries, higher)
	if text == "" {
		return ""
	}
	return text + full
}
