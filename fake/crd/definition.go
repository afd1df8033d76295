package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"

	"github.com/volsim/volsim/fake"
)

const (
	nameDetail = `must be spec.names.plural+"."+spec.group`

	terminatingReason  = "InstanceDeletionPending"
	terminatingMessage = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
)

// definitions returns the resource customresourcedefinitions.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition strategy,
// REST.Delete.
func (r *registry) definitions() fake.CustomKind {
	return fake.CustomKind{
		Group: group, Versions: []string{"v1"},
		Resource: "customresourcedefinitions", Singular: "customresourcedefinition",
		Kind: "CustomResourceDefinition", ListKind: "CustomResourceDefinitionList",
		ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
		Status: true, StatusUpdatesMetadata: true,
		Default: defaultDefinition, Prepare: r.prepare, Finalize: finalize,
		Validate: validateDefinition, ValidateStatus: validateDefinitionStatus,
		Warnings: definitionWarnings, UnknownFields: unknownOfDefinition,
		Schema: func(string) *spec.Schema { return schemaOfDefinitions() },
		Models: models,
		Types:  typesOfDefinitions(),
		GoTypes: func() (obj, list runtime.Object) {
			return &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinitionList{}
		},
	}
}

// read converts an object to a definition.
func read(obj *fake.CustomObject) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := json.Marshal(obj.Content)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := utiljson.Unmarshal(data, crd); err != nil {
		return nil, err
	}
	obj.ObjectMeta.DeepCopyInto(&crd.ObjectMeta)
	return crd, nil
}

// mustRead is like read, for an object that has been through Default.
func mustRead(obj *fake.CustomObject) *apiextensionsv1.CustomResourceDefinition {
	crd, err := read(obj)
	if err != nil {
		panic(fmt.Sprintf("crd: decode stored definition: %v", err))
	}
	return crd
}

// write stores a definition in an object, except the metadata.
func write(obj *fake.CustomObject, crd *apiextensionsv1.CustomResourceDefinition) {
	data, err := json.Marshal(struct {
		Spec   *apiextensionsv1.CustomResourceDefinitionSpec   `json:"spec"`
		Status *apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
	}{&crd.Spec, &crd.Status})
	if err != nil {
		panic(fmt.Sprintf("crd: encode definition: %v", err))
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(data, &content); err != nil {
		panic(fmt.Sprintf("crd: encode definition: %v", err))
	}
	obj.Content = content
}

// internal converts an object to the internal type that upstream's validation takes.
func internal(obj *fake.CustomObject) *apiextensions.CustomResourceDefinition {
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(mustRead(obj), out, nil); err != nil {
		panic(fmt.Sprintf("crd: convert definition: %v", err))
	}
	return out
}

func defaultDefinition(obj *fake.CustomObject) error {
	crd, err := read(obj)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			"CustomResourceDefinition", "v1", "CustomResourceDefinition", err))
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	write(obj, crd)
	return nil
}

// prepare sets the server's part of a definition's status: the stored versions and the conditions
// about its names.
//
// Differs: the conditions are set in the same write. The real controllers set them a moment later,
// in two writes.
func (r *registry) prepare(now metav1.Time, obj, old *fake.CustomObject) {
	crd := mustRead(obj)
	if old == nil {
		crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			if !slices.Contains(crd.Status.StoredVersions, v.Name) {
				crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
			}
			break
		}
	}
	accept(crd, r.namesUsedByOthers(obj), now)
	establish(crd, now)
	approve(crd, now)
	write(obj, crd)
}

// finalize marks a definition whose deletion begins.
func finalize(now metav1.Time, obj *fake.CustomObject) {
	crd := mustRead(obj)
	if !slices.Contains(obj.Finalizers, cleanup) {
		obj.Finalizers = append(obj.Finalizers[:len(obj.Finalizers):len(obj.Finalizers)], cleanup)
	}
	setCondition(crd, now, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
		Reason: terminatingReason, Message: terminatingMessage,
	})
	write(obj, crd)
}

// validateDefinition validates a definition. Package fake validates the metadata except the name.
func validateDefinition(obj, old *fake.CustomObject) field.ErrorList {
	definition := internal(obj)
	errs := checkDefaultsCost(definition)
	if len(errs) > 0 {
		return errs
	}
	if old == nil {
		errs = validation.ValidateCustomResourceDefinition(context.Background(), definition)
	} else {
		errs = validation.ValidateCustomResourceDefinitionUpdate(context.Background(), definition, internal(old))
	}
	return byProperty(withoutAcceptedNamesErrors(withoutMetadataErrors(errs)), 0)
}

func validateDefinitionStatus(obj, old *fake.CustomObject) field.ErrorList {
	return withoutMetadataErrors(validateStatusUpdate(internal(obj), internal(old)))
}

// unknownOfDefinition returns the paths of a definition's unknown fields.
func unknownOfDefinition(obj *fake.CustomObject) []string {
	data, err := json.Marshal(obj.Content)
	if err != nil {
		return nil
	}
	strict, err := kjson.UnmarshalStrict(data, &apiextensionsv1.CustomResourceDefinition{})
	if err != nil {
		return nil // Default refuses an object that cannot be decoded
	}
	var paths []string
	for _, e := range strict {
		var unknown kjson.FieldError
		if errors.As(e, &unknown) {
			paths = append(paths, unknown.FieldPath())
		}
	}
	return paths
}
