package openapi

import "github.com/volsim/volsim/fake"

// Document describes what a server serves.
type Document struct{}

// New makes the document.
func New([]fake.APIResource) *Document { return &Document{} }

// V2 gives the document of version 2.
func (d *Document) V2(string) (body []byte, contentType string) {
	return []byte(`{"swagger":"2.0"}`), "application/json"
}

// V3Index lists the documents of version 3.
func (d *Document) V3Index() []byte { return []byte(`{"paths":{}}`) }

// V3 gives a document of version 3.
func (d *Document) V3(string) ([]byte, bool) { return nil, false }
