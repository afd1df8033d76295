// Package gonb implements the protocol between GoNB, the Go kernel of Jupyter, and the program of a
// cell: the environment variables and the messages on two named pipes.
//
//	gonb.Register()
//	encoder := gob.NewEncoder(pipe)
//	err := encoder.Encode(gonb.Display{Data: map[string]any{gonb.Plain: "hello"}})
//
// A program sends [Display] messages on the first pipe. The kernel answers with [CommValue]
// messages on the second. Each pipe carries one encoding/gob stream. Gob identifies structs by
// their field names, and interface values by their registered names. These types are therefore
// compatible with GoNB's, without importing its module.
//
// The message of [Sync] displays nothing and requests an answer. The kernel processes messages in
// order, so the answer confirms all earlier messages. A program that does not wait for it may end
// too early.
package gonb
