package goroutine

import (
	"bytes"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// Stack returns the stack trace of the calling goroutine.
func Stack() string { return trace(false, 1<<14) }

// Stacks returns the stack traces of all goroutines. It stops the program meanwhile.
func Stacks() string { return trace(true, 1<<18) }

func trace(all bool, size int) string {
	for {
		buffer := make([]byte, size)
		if n := runtime.Stack(buffer, all); n < size {
			return string(buffer[:n])
		}
		size *= 4
	}
}

// Number returns the number of the calling goroutine in stack traces. A program uses each number
// once.
func Number() int {
	var buffer [32]byte
	text := buffer[:runtime.Stack(buffer[:], false)]
	text = bytes.TrimPrefix(text, []byte("goroutine "))
	number, _, _ := bytes.Cut(text, []byte(" "))
	out, err := strconv.Atoi(string(number))
	if err != nil {
		return 0
	}
	return out
}

// An Origin says what started a goroutine.
type Origin struct {
	Function string // that started it, with the last element of its package path: "shop.(*Reconciler).Reconcile"
	Position string // base name and line of its file
	Parent   int    // number of the goroutine that started it
}

// String returns the function and its position.
func (o Origin) String() string { return o.Function + " (" + o.Position + ")" }

// OriginOf returns the origin of the goroutine with the given stack trace. The bool is false for the
// main goroutine.
func OriginOf(stack string) (Origin, bool) {
	at := strings.LastIndex(stack, "created by ")
	if at < 0 {
		return Origin{}, false
	}
	line, rest, _ := strings.Cut(stack[at+len("created by "):], "\n")
	function, parent, _ := strings.Cut(line, " in goroutine ")
	number, _ := strconv.Atoi(strings.TrimSpace(parent))
	file, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	file, _, _ = strings.Cut(file, " +0x")
	return Origin{Function: path.Base(function), Position: path.Base(file), Parent: number}, true
}
