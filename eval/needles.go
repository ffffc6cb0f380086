package eval

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// needle is a sentence that nothing else in a text foretells, and the question for it. The question ends with the
// beginning of the sentence, so that finding the earlier place and going on as it did is enough: even small models can,
// and what is judged is the cache.
type needle struct {
	sentence string // hidden between two sentences of the haystack
	question string // put behind the haystack
	answer   string // what comes then
}

// needleTemplate is how a needle is hidden and asked for.
const needleTemplate = "{text} {subject} is number {number}. {text}\n\nQuestion: What is the number of {subject}?\nAnswer: {subject} is number| {number}"

// subjects are what needles tell the number of.
var subjects = []string{
	"the brass key that Marta hid in the windmill",
	"the silver lantern that Oscar hid in the cellar",
	"the red umbrella that Ines hid in the lighthouse",
	"the wooden flute that Pavel hid in the bakery",
	"the glass bird that Noor hid in the stable",
	"the iron ring that Tomas hid in the chapel",
	"the yellow kite that Lucia hid in the attic",
	"the copper bell that Henrik hid in the orchard",
	"the blue teapot that Amara hid in the library",
	"the paper crown that Felix hid in the boathouse",
	"the velvet glove that Yuki hid in the greenhouse",
	"the stone frog that Bruno hid in the fountain",
	"the green bottle that Salma hid in the tunnel",
	"the clay whistle that Edgar hid in the chimney",
	"the leather map that Rosa hid in the granary",
	"the ivory comb that Viktor hid in the theatre",
	"the tin soldier that Leila hid in the hayloft",
	"the golden thimble that Anton hid in the brewery",
	"the striped scarf that Clara hid in the museum",
	"the black violin that Idris hid in the monastery",
	"the broken compass that Petra hid in the quarry",
	"the painted egg that Simon hid in the dairy",
	"the pearl button that Zofia hid in the tollhouse",
	"the crystal ladle that Marco hid in the observatory",
}

// newNeedle makes the i-th needle of a seed: every subject comes once before one comes again, and the numbers are drawn.
func newNeedle(seed uint64, i int) needle {
	order := rand.New(rand.NewPCG(seed, orderStream)).Perm(len(subjects))
	subject := subjects[order[i%len(subjects)]]
	number := strconv.Itoa(1000 + rand.New(rand.NewPCG(seed, numberStream+uint64(i))).IntN(9000))
	begin := "T" + subject[1:] + " is number"
	return needle{
		sentence: fmt.Sprintf(" %s %s.", begin, number),
		question: fmt.Sprintf("\n\nQuestion: What is the number of %s?\nAnswer: %s", subject, begin),
		answer:   " " + number,
	}
}

// Streams keep what is drawn from one seed for different purposes apart; i is added for the i-th needle or question.
const (
	orderStream   = 1 << 32
	numberStream  = 2 << 32
	strawStream   = 3 << 32
	shuffleStream = 4 << 32
)
