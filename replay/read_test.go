package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzOpen reads what may be a log, line by line.
func FuzzOpen(f *testing.F) {
	const header = `{"kind":"run","format":1,"version":"v","model":{"path":"builtin:","name":"n","fingerprint":"f"},"device":{"name":"d","driver":"d","form":"texel","tuning":{"Form":0,"Lanes":8},"kernels":"k"},` +
		`"kv":{"policy":"h2o","prefill_policy":"","prefill":"auto","budget":"20%","recent_ratio":0.5,"sinks":-1,"type":"f16","positions":"auto","chunk":256},"length":42,"context":0,"longest_prompt":3,"ignore_eos":false,"prompt_tokens":[48,435,559]}` + "\n"
	const eviction = `{"step":9,"layer":0,"head":0,"position":4,"token":499,"score":1.2951674,"reason":"budget"}` + "\n"
	const end = `{"kind":"end","tokens":[330],"seen":3,"evictions":1,"stop_reason":"length"}` + "\n"
	f.Add(header + eviction + end)
	f.Add(header + end)
	f.Add(header + strings.Replace(end, `"seen":3`, `"seen":99`, 1))
	f.Add(strings.Replace(header, `"length":42`, `"length":-42`, 1) + end)
	f.Add(header + "\n\n" + eviction[:30])
	f.Add("\x00\n" + end)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		l, err := Open(path)
		if err != nil {
			return
		}
		defer l.Close()
		lines, err := l.evictions()
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, _, err = lines.eviction()
		}
		if l.Header.Length < 1 || l.End.Seen < 0 || len(l.Header.Prompt) == 0 && l.Header.Session == nil {
			t.Errorf("accepted: %+v, %+v", l.Header, l.End)
		}
	})
}
