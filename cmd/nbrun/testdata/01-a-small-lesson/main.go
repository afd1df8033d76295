// Command 01-a-small-lesson is a lesson for the tests of nbrun. It uses little of volsim.
//
// # What a lesson may hold
//
// A list:
//   - `code` in a line
//   - and [a link]
//
// And a block:
//
//	kubectl get pvc
//
// [a link]: https://kubernetes.io
package main

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/examples/notebook"
)

// words are what the steps are about.
var words = []string{"claim", "volume"}

// box is a picture.
type box struct{ text string }

func (b box) SVG() []byte {
	return []byte("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 80 20\" width=\"80\" height=\"20\">\n<text y=\"15\">" + b.text + "</text>\n</svg>\n")
}

func (b box) Text() string { return "[" + b.text + "]" }

func main() {
	first()
	second()
	answer()
}

// In the first step something is printed.
func first() {
	fmt.Println(strings.Join(words, " and "))
	if len(words) > 0 {
		fmt.Println(`a text
	over two lines`)
	}
}

// Then there is a picture, between two lines of text.
func second() {
	fmt.Println("before")
	notebook.Show(box{words[0]})
	fmt.Println("after")
}

// count is for the answer.
const count = 2

// # A question
//
// How many words are there?
func answer() {
	notebook.Markdown(fmt.Sprintf("There are **%d**.", count))
}
