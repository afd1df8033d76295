package gonb

import (
	"encoding/gob"
	"sync"
)

// Environment variables that GoNB sets for the program of a cell. Shell commands also get the folders.
const (
	PipeEnv    = "GONB_PIPE"      // path of the pipe to the kernel
	BackEnv    = "GONB_PIPE_BACK" // path of the pipe from the kernel
	FolderEnv  = "GONB_DIR"       // folder of the notebook
	ScratchEnv = "GONB_TMP_DIR"   // folder of the module in which cells are compiled
)

// MIME types of displayed items. CommMIME is specific to GoNB and displays nothing; its content is a CommValue.
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

// A Display is a request to display an item.
type Display struct {
	// Data is one item in one or more formats, by MIME type; the front end displays the best one it
	// supports. Values are strings, or bytes for MIME types that are not text.
	Data     map[string]any
	Metadata map[string]any
	// DisplayID, if set, replaces an item displayed earlier under the same ID.
	DisplayID string
}

// A CommValue is a value sent to an address, or a request for one.
type CommValue struct {
	Address string
	Request bool
	Value   any
}

var registered sync.Once

// Register registers the message types with gob. Call it before the first message; it is
// idempotent. It panics in a program that imports GoNB's gonbui, which registers the same name.
func Register() {
	registered.Do(func() { gob.RegisterName(commValueName, CommValue{}) })
}

// Sync returns the message that requests the answer of this number.
func Sync(number int) Display {
	return Display{Data: map[string]any{CommMIME: CommValue{Address: syncAddress, Value: number}}}
}

// SyncNumber returns the number of the requested answer, if the message requests one.
func (d Display) SyncNumber() (number int, ok bool) {
	value, ok := d.Data[CommMIME].(CommValue)
	if !ok || value.Address != syncAddress {
		return 0, false
	}
	number, ok = value.Value.(int)
	return number, ok
}

// Answer returns the answer of this number.
func Answer(number int) CommValue { return CommValue{Address: answerAddress, Value: number} }

// AnswerNumber returns the number of an answer, if the value is one.
func (v CommValue) AnswerNumber() (number int, ok bool) {
	if v.Address != answerAddress {
		return 0, false
	}
	number, ok = v.Value.(int)
	return number, ok
}
