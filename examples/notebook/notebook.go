package notebook

import (
	"fmt"
	"html"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/volsim/volsim/internal/gonb"
)

// An SVGer has an SVG form: a self-contained document.
type SVGer interface{ SVG() []byte }

// A Mermaider has a diagram in Mermaid's language. It is used if there is no SVG.
type Mermaider interface{ Mermaid() string }

// A Texter has a text form, in lines. Other values are formatted by fmt.
type Texter interface{ Text() string }

// Show displays x in its best form: in a notebook its SVG or Mermaid diagram, with its text as an
// alternative; otherwise its text.
func Show(x any) {
	text := lines(x)
	forms := map[string]any{}
	if p, ok := x.(SVGer); ok {
		forms[gonb.SVG] = string(p.SVG())
	} else if d, ok := x.(Mermaider); ok {
		forms[gonb.Mermaid] = d.Mermaid()
	}
	here().show(forms, text)
}

// Markdown displays text formatted as Markdown; without a notebook it prints the text unchanged.
func Markdown(text string) {
	here().show(map[string]any{gonb.Markdown: text}, endLine(text))
}

// HTML displays self-contained HTML; without a notebook it prints the equivalent text.
func HTML(content, text string) {
	here().show(map[string]any{gonb.HTML: content}, endLine(text))
}

// Fold displays a summary that opens to the text of x. Without a notebook it prints both.
func Fold(summary string, x any) {
	text := lines(x)
	here().show(map[string]any{gonb.HTML: fmt.Sprintf("<details><summary>%s</summary><pre>%s</pre></details>",
		html.EscapeString(summary), html.EscapeString(strings.TrimSuffix(text, "\n")))}, summary+":\n"+text)
}

// lines returns the text of x, ending in a newline.
func lines(x any) string {
	if t, ok := x.(Texter); ok {
		return endLine(t.Text())
	}
	if b, ok := x.([]byte); ok {
		return endLine(string(b))
	}
	return endLine(fmt.Sprint(x))
}

func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// here returns the screen of this program.
var here = sync.OnceValue(func() *screen {
	return &screen{
		pipe: os.Getenv(gonb.PipeEnv), back: os.Getenv(gonb.BackEnv),
		out: stdout{}, warnings: os.Stderr,
		unread: func() int { return unreadBytes(os.Stdout) + unreadBytes(os.Stderr) },
	}
})

// A stdout writes to the current value of os.Stdout.
type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return os.Stdout.Write(p) }

// A screen displays items: on the kernel of a notebook, or as text on a stream.
type screen struct {
	pipe, back string // paths of the kernel's pipes; pipe is "" without a notebook
	out        io.Writer
	warnings   io.Writer
	unread     func() int // number of printed bytes that the kernel has not read

	mu     sync.Mutex
	kernel *kernel
	broken bool // the kernel is unreachable, and that was reported
}

// show displays an item in these forms, or prints its text.
func (s *screen) show(forms map[string]any, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(forms) == 0 || s.pipe == "" || s.broken {
		fmt.Fprint(s.out, text)
		return
	}
	forms[gonb.Plain] = strings.TrimSuffix(text, "\n")
	if err := s.send(gonb.Display{Data: forms}); err != nil {
		s.broken = true
		fmt.Fprintf(s.warnings, "notebook: kernel unreachable, printing text instead: %v; restart the kernel\n", err)
		fmt.Fprint(s.out, text)
	}
}

// send displays an item after all text printed so far.
func (s *screen) send(d gonb.Display) error {
	if s.kernel == nil {
		k, err := connect(s.pipe, s.back)
		if err != nil {
			return err
		}
		s.kernel = k
	}
	if err := s.settle(); err != nil {
		return err
	}
	if err := s.kernel.send(d); err != nil {
		return err
	}
	return s.kernel.sync()
}

// settleMax limits how often settle waits for the kernel.
const settleMax = 1000

// settle returns after the kernel has read all printed text. The kernel reads printed text
// concurrently with the pipe and does not report it. Therefore settle requests answers until no
// text is unread, and once more for the kernel to forward it.
func (s *screen) settle() error {
	for range settleMax {
		if s.unread() == 0 {
			break
		}
		if err := s.kernel.sync(); err != nil {
			return err
		}
	}
	return s.kernel.sync()
}
