package notebook

import (
	"encoding/gob"
	"fmt"
	"os"

	"github.com/volsim/volsim/internal/gonb"
)

// A kernel is the connection to the kernel of a notebook.
type kernel struct {
	pipe     *os.File
	messages *gob.Encoder
	answers  *gob.Decoder // nil if the kernel sends no answers
	syncs    int
}

// connect opens the kernel's pipes. Opening blocks until the kernel opens them, in this order.
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

// send sends a message without waiting for its effect.
func (k *kernel) send(d gonb.Display) error {
	if err := k.messages.Encode(d); err != nil {
		return fmt.Errorf("write to $%s: %w", gonb.PipeEnv, err)
	}
	return nil
}

// sync returns after the kernel has processed all earlier messages. Older kernels without a second
// pipe send no answers; for them it returns at once.
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
