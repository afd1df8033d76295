package workload

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// TemplateHash returns the hash of a template and of the number of collisions.
//
// Upstream: pkg/controller ComputeHash (v1.36).
func TemplateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%v", dump.ForHash(*t))
	if collisions != nil {
		hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(uint32(*collisions)))) //nolint:gosec // not negative
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// TemplatePatch returns the patch that gives an owner its present template again. It is the data of a
// ControllerRevision.
//
// Upstream: pkg/controller/statefulset getPatch, pkg/controller/daemon getPatch (v1.36).
func TemplatePatch(template *corev1.PodTemplateSpec) ([]byte, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}
