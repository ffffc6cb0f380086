// Command speed prints the tables of docs/performance.md. `make bench` and `make bench-peer` run it.
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

// policies are compared with each other, the first is what the others are measured against.
var policies = []string{"full", "h2o"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("speed: ")
	program := flag.String("vkdecode", "./vkdecode", "the program")
	model := flag.String("model", "models/SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF file")
	rounds := flag.Int("rounds", 3, "measure so often, in turns, and take the median")
	driver := flag.String("driver", "lavapipe", "lavapipe, swiftshader or auto")
	depths := flag.String("depths", "128,1024,4096", "prompt lengths in tokens")
	decoded := flag.Int("n", 32, "tokens to decode after each prompt")
	peer := flag.String("peer", "", "compare with this build of tests/peer/speed.c")
	backends := flag.String("backends", "", "folder of the peer's backends")
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
	if *peer != "" {
		err = b.besidePeer(*driver, *peer, *backends)
	} else {
		err = b.byDepth(*driver)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// byDepth prints speed by context depth and policy.
func (b bench) byDepth(driver string) error {
	t := newTable("driver", "depth", "policy", "prompt tok/s", "decode tok/s", "decode against full", "KV MiB")
	for _, depth := range b.depths {
		runs := make([][]speed, len(policies))
		for range b.rounds {
			for i, policy := range policies {
				s, err := b.vkdecode(depth, policy)
				if err != nil {
					return err
				}
				log.Printf("%s, depth %d, %s: %.1f and %.1f tok/s", driver, depth, policy, s.prompt, s.decode)
				runs[i] = append(runs[i], s)
			}
		}
		for i, policy := range policies {
			if policy == "h2o" {
				policy += " 20 %"
			}
			s := median(runs[i])
			t.row(driver, strconv.Itoa(depth), policy, fmt.Sprintf("%.1f", s.prompt), fmt.Sprintf("%.1f", s.decode),
				fmt.Sprintf("%.2f", medianRatio(runs[i], runs[0]).decode), fmt.Sprintf("%.1f", float64(s.bytes)/(1<<20)))
		}
	}
	return t.w.Flush()
}

// besidePeer prints the speed with every token kept beside the peer's, on the same prompt.
func (b bench) besidePeer(driver, peer, backends string) error {
	t := newTable("driver", "prompt", "decoded", "program", "prompt tok/s", "ratio", "decode tok/s", "ratio")
	for _, depth := range b.depths {
		var ours, theirs []speed
		for range b.rounds {
			s, err := b.vkdecode(depth, "full")
			if err != nil {
				return err
			}
			ours = append(ours, s)
			if s, err = b.peer(peer, backends, depth); err != nil {
				return err
			}
			theirs = append(theirs, s)
			log.Printf("depth %d: %.1f and %.1f tok/s, llama.cpp %.2f and %.2f", depth, last(ours).prompt, last(ours).decode, s.prompt, s.decode)
		}
		ratio := medianRatio(ours, theirs)
		for _, line := range []struct {
			name string
			speed
			ratio speed
		}{
			{"llama.cpp, Vulkan", median(theirs), speed{prompt: 1, decode: 1}},
			{"vkdecode, full", median(ours), ratio},
		} {
			t.row(driver, strconv.Itoa(depth), strconv.Itoa(b.decoded), line.name, fmt.Sprintf("%.2f", line.prompt),
				fmt.Sprintf("%.1f", line.ratio.prompt), fmt.Sprintf("%.2f", line.decode), fmt.Sprintf("%.1f", line.ratio.decode))
		}
	}
	return t.w.Flush()
}

func last(runs []speed) speed { return runs[len(runs)-1] }

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
