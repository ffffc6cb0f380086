package report

import (
	"embed"
	"html/template"
	"slices"
	"strings"

	"vkdecode/eval"
)

//go:embed page.html style.css
var files embed.FS

// pages makes HTML. What comes from results goes through it as plain text and numbers: nothing is marked as safe but
// the style sheet, which is ours.
var pages = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"style": func() template.CSS {
		css, err := files.ReadFile("style.css")
		if err != nil {
			panic(err) // it is embedded
		}
		return template.CSS(css)
	},
}).ParseFS(files, "page.html"))

// page is what the template shows.
type page struct {
	Title    string
	Facts    []fact
	Command  string
	Sections []section
}

type fact struct{ Name, Text string }

// section is the results that may be compared with each other.
type section struct {
	Heading string
	Lead    string // what was measured
	Finding string // what came out
	Figures []*figure
	Table   *table
	Quote   string // how questions were put
}

// figure is one or more pictures with a title, and how to read them.
type figure struct {
	Number int
	Title  string
	Note   string
	Key    *drawing // of colours, or nil
	Groups []group
	Small  bool   // pictures keep their size and stand in rows
	Table  *table // of the figures, if no other table has them
}

// Wide figures take the whole page.
func (f *figure) Wide() bool { return f.Small || len(f.Groups) > 1 || len(f.Groups[0].Panels) > 1 }

// add puts a panel into the group of that title, which is the last one or a new one.
func (f *figure) add(title string, p panel) {
	if n := len(f.Groups); n == 0 || f.Groups[n-1].Title != title {
		f.Groups = append(f.Groups, group{Title: title})
	}
	last := &f.Groups[len(f.Groups)-1]
	last.Panels = append(last.Panels, p)
}

// single is the groups of a figure with one picture.
func single(d drawing) []group { return []group{{Panels: []panel{{Drawing: d}}}} }

// group is the panels that stand in a row: those of one budget.
type group struct {
	Title  string
	Panels []panel
}

type panel struct {
	Title, Sub string
	Drawing    drawing
}

func newPage(r Results) page {
	p := page{Title: short(r.Title, 200), Command: strings.TrimSpace(clean(r.Command))}
	if p.Title == "" {
		p.Title = "Evaluation"
	}
	l := legend{}
	texts, examined, asked := passages(r.Perplexity), haystacks(r.Recall), exams(r.Accuracy)
	names := newNames(r, texts, examined, asked)
	for _, g := range texts {
		p.Sections = append(p.Sections, g.section(l, names))
	}
	for _, h := range examined {
		p.Sections = append(p.Sections, h.section(names))
	}
	for _, e := range asked {
		p.Sections = append(p.Sections, e.section(l, names))
	}
	n, tables := 0, 0
	for i := range p.Sections {
		s := &p.Sections[i]
		s.Figures = slices.DeleteFunc(s.Figures, func(f *figure) bool { return f == nil })
		for _, f := range s.Figures {
			n++
			f.Number = n
		}
		if s.Table != nil {
			tables++
			s.Table.Number = tables
		}
	}
	p.Facts = names.facts(r)
	return p
}

// names are the models and devices of a page. What is the same everywhere is said once, in the header.
type names struct{ models, devices, texts []string }

// newNames collects them in order of appearance.
func newNames(r Results, texts []*passage, haystacks []*haystack, exams []*exam) (n names) {
	note := func(list *[]string, name string) {
		if name = short(name, 120); name != "" && !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	note(&n.models, r.Model)
	note(&n.devices, r.Device)
	for _, g := range texts {
		note(&n.models, g.model)
		note(&n.devices, g.device)
		note(&n.texts, g.text)
	}
	for _, h := range haystacks {
		note(&n.models, h.model)
		note(&n.devices, h.device)
		note(&n.texts, h.text)
	}
	for _, e := range exams {
		note(&n.models, e.model)
		note(&n.devices, e.device)
		note(&n.texts, e.data)
	}
	return n
}

// facts are the header.
func (n names) facts(r Results) (facts []fact) {
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, fact{name, text})
		}
	}
	var kinds []string
	settings := map[string]bool{}
	count := func(s eval.Setting) { settings[s.Policy+"\x00"+budget(s)+"\x00"+s.KVType+"\x00"+s.Positions] = true }
	for i, x := range r.Perplexity {
		if count(x.Setting); i == 0 {
			kinds = append(kinds, "perplexity")
		}
	}
	for i, x := range r.Recall {
		if count(x.Setting); i == 0 {
			kinds = append(kinds, "needle recall")
		}
	}
	for i, x := range r.Accuracy {
		if count(x.Setting); i == 0 {
			kinds = append(kinds, "question answering")
		}
	}
	add("Model", strings.Join(n.models, ", "))
	add("Device", strings.Join(n.devices, ", "))
	add("Texts and data", strings.Join(n.texts, ", "))
	if len(kinds) > 0 {
		add("Measured", sentence(listed(kinds)+", "+counted(len(settings), "setting")+" of the cache"))
	}
	if !r.When.IsZero() {
		add("When", date(r.When))
	}
	add("Version", short(r.Version, 120))
	return facts
}

// of names model and device where the page has several.
func (n names) of(model, device string) string {
	var parts []string
	if len(n.models) > 1 && model != "" {
		parts = append(parts, short(model, 120))
	}
	if len(n.devices) > 1 && device != "" {
		parts = append(parts, short(device, 120))
	}
	if len(parts) == 0 {
		return ""
	}
	return sentence(strings.Join(parts, " on "))
}

// join puts sentences together, without the empty ones.
func join(sentences ...string) string {
	return strings.Join(slices.DeleteFunc(sentences, func(s string) bool { return s == "" }), " ")
}
