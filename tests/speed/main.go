// Command speed prints the table of docs/performance.md in which we stand beside llama.cpp. `make bench-peer` runs it.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// backend is what the peer runs on, and how tests/peer/speed.c knows it.
type backend struct{ word, name string }

var backends = []backend{
	{"gpu", "Vulkan"},
	{"cpu", "CPU"},
	{"cpu-plain", "CPU without flash attention"},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("speed: ")
	program := flag.String("vkdecode", "./vkdecode", "the program")
	model := flag.String("model", "models/SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF file")
	rounds := flag.Int("rounds", 3, "measure so often, in turns, and take the median")
	driver := flag.String("driver", "lavapipe", "lavapipe, swiftshader or auto")
	depths := flag.String("depths", "64", "prompt lengths in tokens")
	decoded := flag.Int("n", 16, "tokens to decode after each prompt")
	policies := flag.String("kv", "full,full/int8", "our policies, with another precision than f32 behind a slash; those that evict have a budget of 20%")
	against := flag.String("against", "gpu,cpu,cpu-plain", "backends of the peer")
	peer := flag.String("peer", "", "build of tests/peer/speed.c")
	folder := flag.String("backends", "", "folder of the peer's backends")
	flag.Parse()

	b := bench{program: *program, model: *model, rounds: *rounds, decoded: *decoded, policies: strings.Split(*policies, ",")}
	for word := range strings.SplitSeq(*against, ",") {
		i := slices.IndexFunc(backends, func(b backend) bool { return b.word == word })
		if i < 0 {
			log.Fatalf("-against: %q, want gpu, cpu or cpu-plain", word)
		}
		b.backends = append(b.backends, backends[i])
	}
	var err error
	if b.environment, err = environment(*driver); err != nil {
		log.Fatal(err)
	}
	for word := range strings.SplitSeq(*depths, ",") {
		depth, err := strconv.Atoi(word)
		if err != nil || depth < 1 {
			log.Fatalf("-depths: %q, want numbers of tokens", word)
		}
		b.depths = append(b.depths, depth)
	}
	if err := b.besidePeer(*driver, *peer, *folder); err != nil {
		log.Fatal(err)
	}
}

// besidePeer prints our speed beside the peer's on each of its backends, on the same prompt. The programs take turns, and the
// ratios are ours to each, round by round.
func (b bench) besidePeer(driver, peer, folder string) error {
	t := newTable("prompt", "decoded", "program", "prompt tok/s", "ours is", "decode tok/s", "ours is")
	for _, depth := range b.depths {
		ours, theirs := make([][]speed, len(b.policies)), make([][]speed, len(b.backends))
		for range b.rounds {
			for i, policy := range b.policies {
				s, err := b.vkdecode(depth, policy)
				if err != nil {
					return err
				}
				ours[i] = append(ours[i], s)
				log.Printf("depth %d, %s: %.1f and %.1f tok/s", depth, policy, s.prompt, s.decode)
			}
			for i, backend := range b.backends {
				s, err := b.peer(peer, folder, backend.word, depth)
				if err != nil {
					return err
				}
				theirs[i] = append(theirs[i], s)
				log.Printf("depth %d, %s: %.2f and %.2f tok/s", depth, backend.name, s.prompt, s.decode)
			}
		}
		line := func(name string, s, ratio speed) {
			t.row(strconv.Itoa(depth), strconv.Itoa(b.decoded), name, fmt.Sprintf("%.2f", s.prompt), fmt.Sprintf("%.2f", ratio.prompt), fmt.Sprintf("%.2f", s.decode), fmt.Sprintf("%.2f", ratio.decode))
		}
		for n, policy := range b.policies {
			line("vkdecode on "+driver+", "+policy, median(ours[n]), speed{prompt: 1, decode: 1})
			for i, backend := range b.backends {
				line("llama.cpp, "+backend.name, median(theirs[i]), medianRatio(ours[n], theirs[i]))
			}
		}
	}
	return t.w.Flush()
}

// table is printed in Markdown, with columns that line up.
type table struct{ w *tabwriter.Writer }

func newTable(names ...string) table {
	t := table{tabwriter.NewWriter(os.Stdout, 0, 0, 0, ' ', 0)}
	t.row(names...)
	rules := make([]string, len(names))
	for i := range rules {
		rules[i] = "---"
	}
	t.row(rules...)
	return t
}

func (t table) row(cells ...string) { fmt.Fprintf(t.w, "| %s |\n", strings.Join(cells, "\t | ")) }
