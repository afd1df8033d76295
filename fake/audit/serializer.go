package audit

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// A jsonSerializer encodes objects as they are: they have the version that was requested.
type jsonSerializer struct{}

var (
	_      runtime.NegotiatedSerializer = jsonSerializer{}
	asJSON                              = json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, json.SerializerOptions{})
)

// SupportedMediaTypes returns JSON.
func (jsonSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{MediaType: runtime.ContentTypeJSON, Serializer: asJSON}}
}

// EncoderForVersion returns the encoder itself.
func (jsonSerializer) EncoderForVersion(encoder runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return encoder
}

// DecoderToVersion returns the decoder itself.
func (jsonSerializer) DecoderToVersion(decoder runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return decoder
}
