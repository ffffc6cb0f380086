// Command speed prints the table of docs/performance.md in which we stand beside llama.cpp. `make bench-peer` runs it.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// backends are what the peer runs on, and how tests/peer/speed.c knows them.
var backends = []struct{ word, name string }{
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
	peer := flag.String("peer", "", "build of tests/peer/speed.c")
	folder := flag.String("backends", "", "folder of the peer's backends")
	flag.Parse()

	b := bench{program: *program, model: *model, rounds: *rounds, decoded: *decoded}
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

// besidePeer prints our speed with every token kept beside the peer's on each of its backends, on the same prompt. The
// programs take turns, and the ratios are ours to each, round by round.
func (b bench) besidePeer(driver, peer, folder string) error {
	t := newTable("prompt", "decoded", "program", "prompt tok/s", "ours is", "decode tok/s", "ours is")
	for _, depth := range b.depths {
		var ours []speed
		theirs := make([][]speed, len(backends))
		for range b.rounds {
			s, err := b.vkdecode(depth, "full")
			if err != nil {
				return err
			}
			ours = append(ours, s)
			log.Printf("depth %d: %.1f and %.1f tok/s", depth, s.prompt, s.decode)
			for i, backend := range backends {
				if s, err = b.peer(peer, folder, backend.word, depth); err != nil {
					return err
				}
				theirs[i] = append(theirs[i], s)
				log.Printf("depth %d, %s: %.2f and %.2f tok/s", depth, backend.name, s.prompt, s.decode)
			}
		}
		line := func(name string, s, ratio speed) {
			t.row(strconv.Itoa(depth), strconv.Itoa(b.decoded), name, fmt.Sprintf("%.2f", s.prompt), fmt.Sprintf("%.2f", ratio.prompt), fmt.Sprintf("%.2f", s.decode), fmt.Sprintf("%.2f", ratio.decode))
		}
		line("vkdecode on "+driver+", full", median(ours), speed{prompt: 1, decode: 1})
		for i, backend := range backends {
			line("llama.cpp, "+backend.name, median(theirs[i]), medianRatio(ours, theirs[i]))
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
