package data

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// wikiSample is of our own writing, in the form of wiki.test.tokens.
const wikiSample = ` 
 = Harbour Bell = 
 
 The Harbour Bell is a bell @-@ shaped light @-@ house in Marlow , built in 1 @,@ 870 for £ 2 @.@ 5 million ( about $ 3 million ) . 
 Its keeper 's log says : " The <unk> came at dawn ; we saw it first ! " It didn 't stop , and " nobody slept " . 
 
 = = History = = 
 
 It rang in 1901 . 
 
 = = = Later years = = = 
 
 It fell silent ? No : it rings ; 40 % of all ships hear it . 
 
 
 = Marlow = 
 
 Marlow is a town . 
 = not a title = 
 It has a harbour . 
`

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func texts(t *testing.T, path string) (names, contents []string) {
	t.Helper()
	list, err := Texts(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		content, err := one.Read(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		names, contents = append(names, one.Name), append(contents, content)
	}
	return names, contents
}

func TestWikiTextIsReadByArticleAsOrdinaryText(t *testing.T) {
	names, contents := texts(t, write(t, "wiki.test.tokens", wikiSample))
	if want := []string{"wiki.test.tokens: Harbour Bell", "wiki.test.tokens: Marlow"}; !slices.Equal(names, want) {
		t.Fatalf("articles %q, want %q", names, want)
	}
	want := []string{`= Harbour Bell =

The Harbour Bell is a bell-shaped light-house in Marlow, built in 1,870 for £2.5 million (about $3 million).
Its keeper's log says: "The <unk> came at dawn; we saw it first!" It didn't stop, and "nobody slept".

== History ==

It rang in 1901.

=== Later years ===

It fell silent? No: it rings; 40% of all ships hear it.

`, `= Marlow =

Marlow is a town.
= not a title =
It has a harbour.
`}
	for i := range want {
		if contents[i] != want[i] {
			t.Errorf("article %d is\n%s\nwant\n%s", i, contents[i], want[i])
		}
	}
}

func TestAFileThatDoesNotBeginWithATitleIsOneText(t *testing.T) {
	for name, content := range map[string]string{
		"prose":                 "War and Peace\n\n = One = \n\nWell, Prince @-@ so.\n",
		"a title in the prose":  " = One = \nno blank line behind it\n",
		"a section":             " = = One = = \n\ntext\n",
		"an unfinished heading": " = One \n\ntext\n",
		"no title":              "= =\n\ntext\n",
		"windows":               "\r\ntext\r\n",
	} {
		names, contents := texts(t, write(t, "book.raw", content))
		if !slices.Equal(names, []string{"book.raw"}) || contents[0] != content {
			t.Errorf("%s: %q %q", name, names, contents)
		}
	}
}

func TestTitlesAreFoundWithAnyLineEnds(t *testing.T) {
	for _, content := range []string{" = One = \r\n\r\n text \r\n", "\n = One = ", " = One = \n"} {
		if names, _ := texts(t, write(t, "w.raw", content)); !slices.Equal(names, []string{"w.raw: One"}) {
			t.Errorf("%q: %q", content, names)
		}
	}
}

func TestAFolderIsReadByFile(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{"30.txt": "thirty", "4.txt": "four", "100.TXT": "hundred", "empty.txt": "", "metadata.csv": "1,2", "more/5.txt": "five"} {
		path := filepath.Join(folder, name)
		os.MkdirAll(filepath.Dir(path), 0o777)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink(filepath.Join(folder, "nowhere"), filepath.Join(folder, "0.txt"))
	names, contents := texts(t, folder)
	if want := []string{"100.TXT", "30.txt", "4.txt"}; !slices.Equal(names, want) || !slices.Equal(contents, []string{"hundred", "thirty", "four"}) {
		t.Errorf("%q %q", names, contents)
	}
}

func TestPathsWithoutTextAreRefused(t *testing.T) {
	outer := t.TempDir()
	os.Mkdir(filepath.Join(outer, "test"), 0o777)
	for path, want := range map[string]string{
		filepath.Join(outer, "none"): "no such file",
		filepath.Join(outer, "test"): "no file *.txt",
		outer:                        "there are folders in it, such as test: name one",
		os.DevNull:                   "neither a file nor a folder",
	} {
		if _, err := Texts(path); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "data: ") {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

func TestReadStopsAtWholeCharacters(t *testing.T) {
	list, err := Texts(write(t, "t.txt", "aé€😀z"))
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range []string{"", "a", "a", "aé", "aé", "aé", "aé€", "aé€", "aé€", "aé€", "aé€😀", "aé€😀z", "aé€😀z"} {
		if got, err := list[0].Read(int64(most)); err != nil || got != want {
			t.Errorf("%d bytes: %q, %v; want %q", most, got, err, want)
		}
	}
	list, err = Texts(write(t, "t.txt", "ab\xff\xfe"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := list[0].Read(10); got != "ab\xff\xfe" {
		t.Errorf("bytes that are no UTF-8 became %q", got)
	}
}

func TestLongLinesAreReadInPieces(t *testing.T) {
	for name, long := range map[string]string{"words": strings.Repeat("words € ", longestLine/4), "one word": strings.Repeat("€", longestLine)} {
		_, contents := texts(t, write(t, "w.tokens", " = One = \n\n "+long+"\n\n = Two = \n\n end \n"))
		if len(contents) != 2 || contents[1] != "= Two =\n\nend\n" {
			t.Fatalf("%s: %d texts", name, len(contents))
		}
		if got := strings.Join(strings.Fields(contents[0]), " "); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll("= One = "+long, " ", "") || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes became %d", name, len(long), len(contents[0]))
		}
	}
}

func FuzzTextsNeverPanic(f *testing.F) {
	f.Add([]byte(wikiSample), int64(100))
	f.Add([]byte(" = A = \n\n = B = \n\n"), int64(1))
	f.Add([]byte("\" \" @-@ = = ( ) @,@"), int64(7))
	f.Fuzz(func(t *testing.T, content []byte, most int64) {
		most = max(0, min(most, 1<<16))
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		list, err := Texts(path)
		if err != nil {
			t.Fatal(err)
		}
		end := int64(0)
		for _, one := range list {
			text, err := one.Read(most)
			if err != nil || int64(len(text)) > most || utf8.Valid(content) && !utf8.ValidString(text) {
				t.Errorf("%s: %d bytes, want at most %d: %v", one.Name, len(text), most, err)
			}
			if one.begin < end || one.bytes < 0 || one.begin+one.bytes > int64(len(content)) {
				t.Errorf("%s: bytes %d to %d of %d, after %d", one.Name, one.begin, one.begin+one.bytes, len(content), end)
			}
			end = one.begin + one.bytes
		}
		// What is left out at the ends is blank.
		if len(list) > 0 && (len(bytes.TrimSpace(content[:list[0].begin])) > 0 || end != int64(len(content))) {
			t.Errorf("the texts cover bytes %d to %d of %d", list[0].begin, end, len(content))
		}
	})
}
