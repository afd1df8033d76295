package volumehealth

import (
	"fmt"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The capability VOLUME_CONDITION of CSI 1.12 and earlier. Its numbers are reserved since.
const (
	ControllerCapability csi.ControllerServiceCapability_RPC_Type = 11
	NodeCapability       csi.NodeServiceCapability_RPC_Type       = 4
)

// The field volume_condition, and the fields of its message.
const (
	conditionField protowire.Number = 2
	abnormalField  protowire.Number = 1
	messageField   protowire.Number = 2
)

// A Condition states whether a volume is abnormal, and why.
type Condition struct {
	Abnormal bool
	Message  string
}

// conditionIn returns the condition of a VolumeHealth: abnormal if a status is known, and the texts of these
// statuses. Statuses that are not known are ignored, as CSI asks.
func conditionIn(health protoreflect.Message) Condition {
	var c Condition
	var words []string
	entries := listOf(health, "health_statuses")
	for i := range entries.Len() {
		entry := entries.Get(i).Message()
		value := fieldOf(entry, "status").Enum().Values().ByNumber(entry.Get(fieldOf(entry, "status")).Enum())
		if value == nil {
			continue
		}
		switch value.Name() {
		case "DEGRADED", "INACCESSIBLE", "DATA_LOSS":
			c.Abnormal = true
			words = append(words, entryText(string(value.Name()), textOf(entry, "reason"), textOf(entry, "message")))
		}
	}
	c.Message = strings.Join(words, "; ")
	return c
}

func entryText(status, reason, message string) string {
	if message == "" {
		return status + " " + reason
	}
	return fmt.Sprintf("%s %s: %s", status, reason, message)
}

// Retired returns the volume_condition in a NodeGetVolumeStatsResponse, or in the VolumeStatus of a
// ListVolumesResponse or ControllerGetVolumeResponse. It reports whether there is one. What is
// malformed does not count.
func Retired(m proto.Message) (c Condition, reported bool) {
	eachField(m.ProtoReflect().GetUnknown(), func(number protowire.Number, value []byte, _ uint64) {
		if number == conditionField && value != nil {
			c, reported = conditionOf(value), true
		}
	})
	return c, reported
}

func conditionOf(encoded []byte) Condition {
	var c Condition
	eachField(encoded, func(number protowire.Number, value []byte, n uint64) {
		switch {
		case number == abnormalField && value == nil:
			c.Abnormal = protowire.DecodeBool(n)
		case number == messageField && value != nil:
			c.Message = string(value)
		}
	})
	return c
}

// eachField passes the fields of an encoded message: the bytes of one that has a length, the number
// of a varint. It ends at what is malformed.
func eachField(encoded []byte, visit func(number protowire.Number, value []byte, n uint64)) {
	for len(encoded) > 0 {
		number, kind, length := protowire.ConsumeTag(encoded)
		if length < 0 {
			return
		}
		encoded = encoded[length:]
		value, n := []byte(nil), uint64(0)
		switch kind {
		case protowire.BytesType:
			value, length = protowire.ConsumeBytes(encoded)
		case protowire.VarintType:
			n, length = protowire.ConsumeVarint(encoded)
		default:
			length = protowire.ConsumeFieldValue(number, kind, encoded)
		}
		if length < 0 {
			return
		}
		if kind == protowire.BytesType || kind == protowire.VarintType {
			visit(number, value, n)
		}
		encoded = encoded[length:]
	}
}

// SetRetired sets the volume_condition of such a message, as a driver of CSI 1.12 does.
func SetRetired(m proto.Message, c Condition) {
	var encoded []byte
	encoded = protowire.AppendTag(encoded, abnormalField, protowire.VarintType)
	encoded = protowire.AppendVarint(encoded, protowire.EncodeBool(c.Abnormal))
	encoded = protowire.AppendTag(encoded, messageField, protowire.BytesType)
	encoded = protowire.AppendString(encoded, c.Message)
	fields := protowire.AppendTag(nil, conditionField, protowire.BytesType)
	fields = protowire.AppendBytes(fields, encoded)
	m.ProtoReflect().SetUnknown(append(protoreflect.RawFields(nil), fields...))
}
