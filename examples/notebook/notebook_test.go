//go:build linux

package notebook

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/gonb"
)

// A drawing has all forms.
type drawing struct{}

func (drawing) SVG() []byte     { return []byte("<svg/>") }
func (drawing) Mermaid() string { return "sequenceDiagram" }
func (drawing) Text() string    { return "a box" }

// A diagram has no SVG form.
type diagram struct{}

func (diagram) Mermaid() string { return "sequenceDiagram" }
func (diagram) String() string  { return "an arrow\n" }

func TestTextWithoutNotebook(t *testing.T) {
	for _, c := range []struct {
		name string
		show func()
		want string
	}{
		{"a picture", func() { Show(drawing{}) }, "a box\n"},
		{"a diagram", func() { Show(diagram{}) }, "an arrow\n"},
		{"a string", func() { Show("one\ntwo") }, "one\ntwo\n"},
		{"an empty string", func() { Show("") }, ""},
		{"bytes", func() { Show([]byte("data")) }, "data\n"},
		{"a number", func() { Show(3) }, "3\n"},
		{"Markdown", func() { Markdown("is **Bound**") }, "is **Bound**\n"},
		{"HTML", func() { HTML("<b>Bound</b>", "Bound") }, "Bound\n"},
		{"folded text", func() { Fold("Answer", "a < b\nc") }, "Answer:\na < b\nc\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			onScreen(t, &screen{out: &out})
			c.show()
			if out.String() != c.want {
				t.Errorf("printed %q, want %q", out.String(), c.want)
			}
		})
	}
}

// onScreen makes s the screen of the test.
func onScreen(t *testing.T, s *screen) {
	before := here
	here = func() *screen { return s }
	t.Cleanup(func() { here = before })
}

// A fakeKernel is a kernel that reads printed text as late as GoNB may: only at the third requested answer in a row.
type fakeKernel struct {
	pipe, back string
	printed    *os.File // the program's end
	reading    *os.File
	log        []string // displayed items in order
	done       chan error
}

func newFakeKernel(t *testing.T) *fakeKernel {
	t.Helper()
	dir := t.TempDir()
	k := &fakeKernel{pipe: filepath.Join(dir, "to"), back: filepath.Join(dir, "from"), done: make(chan error, 1)}
	for _, path := range []string{k.pipe, k.back} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if k.reading, k.printed, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.reading.Close(); k.printed.Close() })
	go func() { k.done <- k.serve() }()
	return k
}

func (k *fakeKernel) serve() error {
	gonb.Register()
	r, err := os.Open(k.pipe)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(k.back, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	messages, answers := gob.NewDecoder(r), gob.NewEncoder(w)
	for requests := 0; ; {
		var d gonb.Display
		if err := messages.Decode(&d); err != nil {
			return nil // the program has ended
		}
		number, ok := d.SyncNumber()
		if !ok {
			k.log = append(k.log, "shown: "+formsOf(d))
			requests = 0
			continue
		}
		if requests++; requests >= 3 {
			k.read()
		}
		if err := answers.Encode(gonb.Answer(number)); err != nil {
			return err
		}
	}
}

// read reads the printed text.
func (k *fakeKernel) read() {
	for n := unreadBytes(k.reading); n > 0; n = unreadBytes(k.reading) {
		text := make([]byte, n)
		n, _ := k.reading.Read(text)
		k.log = append(k.log, "printed: "+string(text[:n]))
	}
}

// formsOf describes a message's forms.
func formsOf(d gonb.Display) string {
	var forms []string
	for mime, content := range d.Data {
		forms = append(forms, fmt.Sprintf("%s %q", mime, content))
	}
	slices.Sort(forms)
	return strings.Join(forms, ", ")
}

func (k *fakeKernel) screen() *screen {
	return &screen{pipe: k.pipe, back: k.back, out: k.printed, unread: func() int { return unreadBytes(k.printed) }}
}

func TestItemsAppearInOrder(t *testing.T) {
	k := newFakeKernel(t)
	s := k.screen()
	onScreen(t, s)
	fmt.Fprint(k.printed, "one")
	Show(drawing{})
	Show(diagram{})
	fmt.Fprint(k.printed, "two")
	Show("three")
	Markdown("*four*")
	HTML("<i>five</i>", "five")
	Fold("six?", "a < b\nc")
	fmt.Fprint(k.printed, "six")
	if err := s.settle(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`printed: one`,
		`shown: image/svg+xml "<svg/>", text/plain "a box"`,
		`shown: text/plain "an arrow", text/vnd.mermaid "sequenceDiagram"`,
		"printed: twothree\n",
		`shown: text/markdown "*four*", text/plain "*four*"`,
		`shown: text/html "<i>five</i>", text/plain "five"`,
		`shown: text/html "<details><summary>six?</summary><pre>a &lt; b\nc</pre></details>", text/plain "six?:\na < b\nc"`,
		`printed: six`,
	}
	if !slices.Equal(k.log, want) {
		t.Errorf("displayed\n%s\nwant\n%s", strings.Join(k.log, "\n"), strings.Join(want, "\n"))
	}
}

func TestShowReturnsAfterDisplay(t *testing.T) {
	k := newFakeKernel(t)
	onScreen(t, k.screen())
	Show(drawing{})
	// The program may end here. Reading the log is safe, because the answer follows the message.
	if len(k.log) != 1 {
		t.Errorf("when Show returned, the kernel had shown %q, want the drawing", k.log)
	}
}

func TestUnreachableKernelIsReportedOnce(t *testing.T) {
	var out, warnings bytes.Buffer
	missing := filepath.Join(t.TempDir(), "gone")
	onScreen(t, &screen{pipe: missing, out: &out, warnings: &warnings})
	Show(drawing{})
	Show(drawing{})
	if out.String() != "a box\na box\n" {
		t.Errorf("printed %q, want the text of both", out.String())
	}
	if n := strings.Count(warnings.String(), "restart the kernel"); n != 1 {
		t.Errorf("%d warnings, want one: %s", n, warnings.String())
	}
}

func TestOldKernelWithoutAnswers(t *testing.T) {
	k := newFakeKernel(t)
	s := k.screen()
	s.back = ""
	onScreen(t, s)
	go func() { // GoNB opens the second pipe and waits for a reader
		if r, err := os.Open(k.back); err == nil {
			r.Close()
		}
	}()
	Show(drawing{})
	s.kernel.pipe.Close()
	if err := <-k.done; err != nil {
		t.Fatal(err)
	}
	if len(k.log) != 1 {
		t.Errorf("the kernel showed %q, want the drawing", k.log)
	}
}
