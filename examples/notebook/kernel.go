package notebook

import (
	"encoding/gob"
	"fmt"
	"os"

	"github.com/volsim/volsim/internal/gonb"
)

// kernel is the connection to the kernel of a notebook.
type kernel struct {
	pipe     *os.File
	messages *gob.Encoder
	answers  *gob.Decoder // nil if the kernel gives none
	syncs    int
}

// connect opens the kernel's pipes. They wait for the kernel, in this order.
func connect(pipe, back string) (*kernel, error) {
	gonb.Register()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open $%s: %w", gonb.PipeEnv, err)
	}
	k := &kernel{pipe: w, messages: gob.NewEncoder(w)}
	if back == "" {
		return k, nil
	}
	r, err := os.Open(back)
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("open $%s: %w", gonb.BackEnv, err)
	}
	k.answers = gob.NewDecoder(r)
	return k, nil
}

// send sends a message, and does not wait until something came of it.
func (k *kernel) send(d gonb.Display) error {
	if err := k.messages.Encode(d); err != nil {
		return fmt.Errorf("write to $%s: %w", gonb.PipeEnv, err)
	}
	return nil
}

// sync returns when the kernel has done what it was told so far. A kernel that answers nothing (one from before it had a pipe for
// that) is believed.
func (k *kernel) sync() error {
	if k.answers == nil {
		return nil
	}
	k.syncs++
	if err := k.send(gonb.Sync(k.syncs)); err != nil {
		return err
	}
	for {
		var value gonb.CommValue
		if err := k.answers.Decode(&value); err != nil {
			return fmt.Errorf("read from $%s: %w", gonb.BackEnv, err)
		}
		if number, ok := value.AnswerNumber(); ok && number == k.syncs {
			return nil
		}
	}
}
