package csiserver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// tokensKey is the key in a volume's context of the service account tokens that a kubelet passes to
// drivers on request.
//
// Upstream: pkg/volume/csi podServiceAccountToken (v1.36).
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

const redacted = "***"

// withoutSecrets returns a copy of a message with the values of CSI secrets and tokens replaced by
// asterisks. Keys remain.
func withoutSecrets(message proto.Message) proto.Message {
	public := proto.Clone(message)
	redact(public.ProtoReflect())
	return public
}

func redact(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case isSecret(field):
			message.Set(field, redactedValue(message, field, value))
		case field.IsMap() && field.MapValue().Kind() == protoreflect.StringKind:
			if key := protoreflect.ValueOfString(tokensKey).MapKey(); field.MapKey().Kind() == protoreflect.StringKind && value.Map().Has(key) {
				value.Map().Set(key, protoreflect.ValueOfString(redacted))
			}
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, each protoreflect.Value) bool {
				redact(each.Message())
				return true
			})
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				redact(value.List().Get(i).Message())
			}
		case !field.IsMap() && !field.IsList() && field.Message() != nil:
			redact(value.Message())
		}
		return true
	})
}

func isSecret(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	return ok && proto.HasExtension(options, csi.E_CsiSecret) && proto.GetExtension(options, csi.E_CsiSecret).(bool)
}

// redactedValue returns the replacement for a secret: maps of strings keep their keys, other values
// become empty.
func redactedValue(message protoreflect.Message, field protoreflect.FieldDescriptor,
	secret protoreflect.Value,
) protoreflect.Value {
	public := message.NewField(field)
	if field.IsMap() && field.MapValue().Kind() == protoreflect.StringKind {
		secret.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			public.Map().Set(key, protoreflect.ValueOfString(redacted))
			return true
		})
	}
	return public
}
