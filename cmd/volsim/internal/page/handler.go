package page

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed assets
var assets embed.FS

// opBytesMax is the maximum length of an operation in bytes.
const opBytesMax = 4 << 10

// fileBytesMax is the maximum length of a loaded file in bytes. Saved requests may be long.
const fileBytesMax = 64 << 20

// errLive is the response to operations that a live world does not support.
var errLive = errors.New("this world is live and cannot be stepped: start volsim serve --by-hand instead")

// newHandler returns the handler of all endpoints, without access control.
func newHandler(world World) http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic("page: " + err.Error()) // the path is constant
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, world.State()) })
	mux.HandleFunc("GET /changes", changes(world))
	mux.HandleFunc("GET /diagram.svg", diagram(world))
	stepper, _ := world.(Stepper)
	mux.HandleFunc("POST /do", handleUpTo(opBytesMax, func(r *http.Request) (Result, error) {
		op, err := io.ReadAll(r.Body)
		if err != nil {
			return Result{}, fmt.Errorf("read operation of at most %d bytes: %w", opBytesMax, err)
		}
		return world.Do(string(op))
	}))
	stepped := func(do func(*http.Request) (Result, error)) func(*http.Request) (Result, error) {
		if stepper == nil {
			return func(*http.Request) (Result, error) { return Result{}, errLive }
		}
		return do
	}
	mux.HandleFunc("POST /undo", handleUpTo(opBytesMax, stepped(func(*http.Request) (Result, error) { return stepper.Undo() })))
	mux.HandleFunc("POST /reset", handleUpTo(opBytesMax, stepped(func(*http.Request) (Result, error) { return stepper.Reset() })))
	mux.HandleFunc("POST /load", handleUpTo(fileBytesMax, stepped(func(r *http.Request) (Result, error) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return Result{}, fmt.Errorf("read file of at most %d bytes: %w", fileBytesMax, err)
		}
		return stepper.Load(string(text))
	})))
	mux.HandleFunc("GET /operations.txt", func(w http.ResponseWriter, _ *http.Request) {
		if stepper == nil {
			writeError(w, errLive)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, strings.Join(stepper.Ops(), "\n"))
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

// handleUpTo handles a request that changes a world, with the maximum size of its body.
func handleUpTo(bytesMax int64, do func(*http.Request) (Result, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, bytesMax)
		done, err := do(r)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, done)
	}
}

// writeError responds with 422 and a message.
func writeError(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusUnprocessableEntity)
}

func writeJSON(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // fails only if the browser has gone
}

// changes streams versions as server-sent events, until the browser disconnects or the server
// stops.
func changes(world World) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		for {
			version, changed := world.Changes()
			if _, err := fmt.Fprintf(w, "data: %d\n\n", version); err != nil || out.Flush() != nil {
				return
			}
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
		}
	}
}
