package csireq

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Limits of the texts of a request, in bytes.
const (
	textBytesMax       = 128  // the specification's default
	nodeIDBytesMax     = 256  // the specification's
	mountFlagsBytesMax = 4095 // of all mount flags together: a page with a final zero, as in mount(2)
	pathBytesMax       = 4095 // PATH_MAX without the final zero
	elementBytesMax    = 255  // NAME_MAX
	// idBytesMax is larger than the specification's 128, because some drivers have longer IDs, and
	// their volumes may meet a driver of ours that was registered under their name.
	idBytesMax = 4095
)

// CheckText returns InvalidArgument for the first text of a request that cannot be valid in any
// call: it is longer than the specification or the kernel allows, or contains control characters
// that the specification bans from names. Paths may contain any character but U+0000. Maps are not
// checked: keys and values are compared and parsed, and those of service accounts are large.
func CheckText(request proto.Message) error { return checkMessage(request.ProtoReflect()) }

func checkMessage(message protoreflect.Message) error {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.IsMap() || !message.Has(field) {
			continue
		}
		if err := checkField(field, message.Get(field)); err != nil {
			return err
		}
	}
	return nil
}

func checkField(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	check := func(one protoreflect.Value) error {
		switch field.Kind() {
		case protoreflect.StringKind:
			if problem := problemOf(string(field.Name()), one.String()); problem != "" {
				return status.Errorf(codes.InvalidArgument, "%s %s", field.Name(), problem)
			}
		case protoreflect.MessageKind:
			return checkMessage(one.Message())
		default:
		}
		return nil
	}
	if !field.IsList() {
		return check(value)
	}
	for i := range value.List().Len() {
		if err := check(value.List().Get(i)); err != nil {
			return err
		}
	}
	return nil
}

// problemOf returns what is wrong with the text of a field, or "".
func problemOf(field, text string) string {
	switch {
	case strings.HasSuffix(field, "_path"):
		return pathProblem(text)
	case field == "mount_flags":
		return textProblem(text, mountFlagsBytesMax)
	case field == "node_id":
		return textProblem(text, nodeIDBytesMax)
	case strings.HasSuffix(field, "_id"), strings.HasSuffix(field, "_ids"), strings.HasSuffix(field, "_token"):
		return textProblem(text, idBytesMax)
	}
	return textProblem(text, textBytesMax)
}

func textProblem(text string, bytesMax int) string {
	if len(text) > bytesMax {
		return fmt.Sprintf("has %d bytes, want at most %d", len(text), bytesMax)
	}
	if at := strings.IndexFunc(text, isBanned); at >= 0 {
		return fmt.Sprintf("contains the control character %U", []rune(text[at:])[0])
	}
	return ""
}

func pathProblem(path string) string {
	switch {
	case len(path) > pathBytesMax:
		return fmt.Sprintf("has %d bytes, want at most %d", len(path), pathBytesMax)
	case strings.Contains(path, "\x00"):
		return "contains the control character U+0000"
	}
	for element := range strings.SplitSeq(path, "/") {
		if len(element) > elementBytesMax {
			return fmt.Sprintf("has an element of %d bytes, want at most %d", len(element), elementBytesMax)
		}
	}
	return ""
}

// isBanned reports whether the specification bans a character from names: a control character
// other than white space.
func isBanned(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f
}
