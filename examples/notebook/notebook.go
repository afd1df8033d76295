package notebook

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/volsim/volsim/internal/gonb"
)

// SVGer is what has a picture of itself: an SVG document that needs nothing from elsewhere.
type SVGer interface{ SVG() []byte }

// Mermaider is what has a diagram of itself, in the language of Mermaid. It is shown as such if there is no picture of it.
type Mermaider interface{ Mermaid() string }

// Texter is what has a text of itself, in lines. What has none is told as fmt tells it.
type Texter interface{ Text() string }

// Show shows x in the best of its forms: in a notebook its picture or else its diagram, with its text beside for those who see
// neither; where there is no notebook, or where there is text only, the text.
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

// Markdown shows text formatted as Markdown; where there is no notebook, as it is.
func Markdown(text string) {
	here().show(map[string]any{gonb.Markdown: text}, endLine(text))
}

// HTML shows a piece of HTML, which needs nothing from elsewhere; where there is no notebook, the text, which says the same.
func HTML(html, text string) {
	here().show(map[string]any{gonb.HTML: html}, endLine(text))
}

// lines is what x says, with a newline at its end.
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

// here is where this program shows things.
var here = sync.OnceValue(func() *screen {
	return &screen{
		pipe: os.Getenv(gonb.PipeEnv), back: os.Getenv(gonb.BackEnv),
		out: stdout{}, warnings: os.Stderr,
		unread: func() int { return unreadBytes(os.Stdout) + unreadBytes(os.Stderr) },
	}
})

// stdout is os.Stdout, whichever that is when something is printed.
type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return os.Stdout.Write(p) }

// screen is a place to show things: the kernel of a notebook, or a stream of text.
type screen struct {
	pipe, back string // paths of the kernel's pipes; without a pipe there is no notebook
	out        io.Writer
	warnings   io.Writer
	unread     func() int // how many bytes that were printed the kernel has not read yet

	mu     sync.Mutex
	kernel *kernel
	broken bool // the kernel cannot be reached, and that was said
}

// show shows something in these forms, or prints its text.
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
		fmt.Fprintf(s.warnings, "notebook: the kernel cannot be reached (%v); what it would show is printed as text: restart the kernel\n", err)
		fmt.Fprint(s.out, text)
	}
}

// send has the kernel show something, after all that was printed and before all that will be.
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

// settleMax bounds how often the kernel is asked whether it has read what was printed.
const settleMax = 1000

// settle returns when the kernel has read what was printed so far. A kernel reads what is printed beside its pipe, and says nothing
// when it has: so it is asked for other answers until there is nothing left to read, and for one more, for it to pass that on.
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
