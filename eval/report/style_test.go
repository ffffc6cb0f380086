package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The palette is measured: contrast as WCAG 2 defines it, and how far apart colours are for eyes without one of the cones
// (Machado, Oliveira and Fernandes 2009, severity 1) in CIELAB.

type rgb [3]float64 // linear light, 0 to 1

func hex(t *testing.T, text string) (c rgb) {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 16, 32)
	if err != nil || len(text) != 7 {
		t.Fatalf("%q is no colour", text)
	}
	for i := range c {
		v := float64(n>>(16-8*i)&255) / 255
		if v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

func contrast(a, b rgb) float64 {
	hi, lo := max(a.luminance(), b.luminance()), min(a.luminance(), b.luminance())
	return (hi + 0.05) / (lo + 0.05)
}

var eyes = map[string][3]rgb{
	"all cones":     {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"without red":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"without green": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
}

func (c rgb) seen(eye [3]rgb) (s rgb) {
	for i, row := range eye {
		s[i] = min(1, max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2]))
	}
	return s
}

func (c rgb) lab() [3]float64 {
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505)
	y := f(c.luminance())
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b rgb) float64 {
	p, q := a.lab(), b.lab()
	return math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])
}

// schemes are the variables of the style sheet for light and dark.
func schemes(t *testing.T) map[string]map[string]rgb {
	t.Helper()
	css, err := files.ReadFile("style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(css), "@media screen and (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("the style sheet has no dark scheme")
	}
	all := map[string]map[string]rgb{"light": {}, "dark": {}}
	for name, text := range map[string]string{"light": light, "dark": dark} {
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): (#[0-9a-f]+);`).FindAllStringSubmatch(text, -1) {
			all[name][m[1]] = hex(t, m[2])
		}
	}
	return all
}

// complaints lists what is wrong with a scheme.
func complaints(v map[string]rgb) (wrong []string) {
	need := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	for _, ink := range []string{"ink", "quiet"} {
		for _, page := range []string{"page", "raised"} {
			need(contrast(v[ink], v[page]) >= 4.5, "%s on %s: contrast %.2f, want 4.5", ink, page, contrast(v[ink], v[page]))
		}
	}
	for i := range colours {
		a := v[fmt.Sprint("c", i)]
		need(contrast(a, v["page"]) >= 3, "c%d: contrast %.2f, want 3", i, contrast(a, v["page"]))
		for j := range i {
			b := v[fmt.Sprint("c", j)]
			for name, eye := range eyes {
				d := distance(a.seen(eye), b.seen(eye))
				need(d >= 15, "c%d and c%d, %s: %.1f apart, want 15", j, i, name, d)
			}
		}
	}
	up := v["h10"].luminance() > v["h0"].luminance()
	for i := range shades {
		text := "low"
		if i >= 9 {
			text = "high"
		} else if i >= 7 {
			text = "middle"
		}
		h := v[fmt.Sprint("h", i)]
		need(contrast(h, v[text]) >= 4.5, "%s on h%d: contrast %.2f, want 4.5", text, i, contrast(h, v[text]))
		if i > 0 {
			need(h.luminance() > v[fmt.Sprint("h", i-1)].luminance() == up, "h%d breaks the order from dark to light", i)
		}
	}
	return wrong
}

func TestColoursCanBeToldApart(t *testing.T) {
	for name, v := range schemes(t) {
		for _, wrong := range complaints(v) {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

func TestBadColoursAreFound(t *testing.T) {
	for _, change := range []struct{ name, colour, want string }{
		{"quiet", "#aaaaaa", "quiet on page"}, {"c1", "#f5e6c8", "c1: contrast"}, {"c2", "#b8860b", "c2 and c4"}, {"h4", "#000000", "h5 breaks"}, {"high", "#333333", "high on h9"},
	} {
		v := schemes(t)["light"]
		v[change.name] = hex(t, change.colour)
		if got := strings.Join(complaints(v), "\n"); !strings.Contains(got, change.want) {
			t.Errorf("%s %s: complaints are %q, want one of %q", change.name, change.colour, got, change.want)
		}
	}
}

func TestEveryClassHasAStyle(t *testing.T) {
	css, err := files.ReadFile("style.css")
	if err != nil {
		t.Fatal(err)
	}
	missing := func(page string) (names []string) {
		for _, m := range regexp.MustCompile(` class="([^"]+)"`).FindAllStringSubmatch(page, -1) {
			for _, class := range strings.Fields(m[1]) {
				if !regexp.MustCompile(`\.` + class + `\b`).Match(css) {
					names = append(names, class)
				}
			}
		}
		return names
	}
	for name, r := range samples() {
		if names := missing(render(t, r)); len(names) > 0 {
			t.Errorf("%s: no style for %q", name, names)
		}
	}
	if got := missing(`<path class="line c9">`); len(got) != 1 || got[0] != "c9" {
		t.Errorf("missing are %q, want c9", got)
	}
}
