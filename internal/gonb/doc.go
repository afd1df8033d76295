// Package gonb is what GoNB, the Go kernel of Jupyter, and the program of one of its cells say to one another: the names of
// environment variables, and the messages on two named pipes. A program asks on the first pipe for something to be shown
// ([Display]); what the kernel answers comes on the second ([CommValue]).
//
// Each pipe carries one stream of encoding/gob. Gob knows structs by the names of their fields, and what is behind an interface by
// the name it was registered under; so these types speak with GoNB's own, and GoNB's module is not imported.
//
// One message asks for nothing to be shown: it asks for an answer ([Sync]). The kernel takes messages one after the other, so the
// answer says that all before it was shown. A program that ends without having waited for it may end too early.
package gonb
