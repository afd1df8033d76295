package gonb

import (
	"encoding/gob"
	"sync"
)

// Environment variables that GoNB sets for the program of a cell; the folders also for shell commands.
const (
	PipeEnv    = "GONB_PIPE"      // the path of the pipe to the kernel
	BackEnv    = "GONB_PIPE_BACK" // the path of the pipe from the kernel
	FolderEnv  = "GONB_DIR"       // the folder of the notebook
	ScratchEnv = "GONB_TMP_DIR"   // the folder of the module that cells are compiled in
)

// MIME types of what a program shows. CommMIME is GoNB's own and shows nothing: its content is a CommValue.
const (
	SVG      = "image/svg+xml"
	Plain    = "text/plain"
	Markdown = "text/markdown"
	HTML     = "text/html"
	Mermaid  = "text/vnd.mermaid"
	CommMIME = "gonb/comm_value"
)

const (
	syncAddress   = "#gonbui/sync"
	answerAddress = "#gonbui/sync_ack"
	commValueName = "github.com/janpfeifer/gonb/gonbui/protocol.CommValue"
)

// Display is a message of a program: show this.
type Display struct {
	// Data is one and the same thing in one or more forms, by MIME type; who shows it takes the best that it can. A form is a
	// string, or bytes where the MIME type is not text.
	Data     map[string]any
	Metadata map[string]any
	// DisplayID, if there is one, says that this takes the place of what was shown by that name before.
	DisplayID string
}

// CommValue is a value for an address, or of one.
type CommValue struct {
	Address string
	Request bool
	Value   any
}

var registered sync.Once

// Register makes gob know what is behind the interfaces of messages. It is to be called before the first message; it does its work
// once. It panics in a program that imports GoNB's own gonbui, which registers the same name.
func Register() {
	registered.Do(func() { gob.RegisterName(commValueName, CommValue{}) })
}

// Sync is the message that asks for the answer of this number.
func Sync(number int) Display {
	return Display{Data: map[string]any{CommMIME: CommValue{Address: syncAddress, Value: number}}}
}

// SyncNumber is the number of the answer that a message asks for, if it asks for one.
func (d Display) SyncNumber() (number int, ok bool) {
	value, ok := d.Data[CommMIME].(CommValue)
	if !ok || value.Address != syncAddress {
		return 0, false
	}
	number, ok = value.Value.(int)
	return number, ok
}

// Answer is the answer of this number.
func Answer(number int) CommValue { return CommValue{Address: answerAddress, Value: number} }

// AnswerNumber is the number of an answer, if this is one.
func (v CommValue) AnswerNumber() (number int, ok bool) {
	if v.Address != answerAddress {
		return 0, false
	}
	number, ok = v.Value.(int)
	return number, ok
}
