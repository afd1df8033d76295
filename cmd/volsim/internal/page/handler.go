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

// opBytesMax is how long an operation may be.
const opBytesMax = 4 << 10

// errLive is the answer to whoever wants to move a live world.
var errLive = errors.New("this world is live: it moves by itself and cannot be stopped. For one that moves step by step, start: volsim serve --by-hand")

// newHandler answers a browser that may look. Who may is for others to say.
func newHandler(world World) http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic("page: " + err.Error()) // it is a constant
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, world.State()) })
	mux.HandleFunc("GET /changes", changes(world))
	mux.HandleFunc("GET /diagram.svg", diagram(world))
	mover, _ := world.(Stepper)
	mux.HandleFunc("POST /do", handleOp(mover, func(r *http.Request) (Result, error) {
		op, err := io.ReadAll(r.Body)
		if err != nil {
			return Result{}, fmt.Errorf("an operation is a line of at most %d bytes: %w", opBytesMax, err)
		}
		return mover.Do(string(op))
	}))
	mux.HandleFunc("POST /back", handleOp(mover, func(*http.Request) (Result, error) { return mover.Undo() }))
	mux.HandleFunc("POST /again", handleOp(mover, func(*http.Request) (Result, error) { return mover.Reset() }))
	mux.HandleFunc("GET /operations.txt", func(w http.ResponseWriter, _ *http.Request) {
		if mover == nil {
			writeError(w, errLive)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, strings.Join(mover.Ops(), "\n"))
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

// handleOp answers a request to move the world.
func handleOp(mover Stepper, do func(*http.Request) (Result, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if mover == nil {
			writeError(w, errLive)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, opBytesMax)
		done, err := do(r)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, done)
	}
}

// writeError says what is wrong.
func writeError(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusUnprocessableEntity)
}

func writeJSON(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // the browser went away: there is nobody to tell
}

// changes tells of the numbers of states, as server-sent events, until the browser is gone or the server ends.
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
