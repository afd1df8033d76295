package envtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
)

// converterService is the Service inside the process that converts custom objects.
var converterService = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "envtest-converter"}

// withConverter adds the converter of a scheme's types to the configuration of a cluster.
func withConverter(cfg cluster.Config, goTypes *runtime.Scheme) cluster.Config {
	services := map[types.NamespacedName]http.Handler{converterService: converter{goTypes}}
	maps.Copy(services, cfg.API.Services)
	cfg.API.Services = services
	return cfg
}

// adaptConversion makes a definition use the converter if the Go types of its kind convert. It
// removes the conversion webhook otherwise. With IgnoreSchemeConvertible, a conversion webhook is the suite's server.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/envtest modifyConversionWebhooks.
func adaptConversion(definition *apiextensionsv1.CustomResourceDefinition, goTypes *runtime.Scheme, webhooks *WebhookInstallOptions) {
	if definition.Spec.PreserveUnknownFields {
		return
	}
	if c := definition.Spec.Conversion; webhooks.IgnoreSchemeConvertible {
		if c != nil && c.Webhook != nil {
			c.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{
				URL: ptr.To("https://" + webhooks.address() + "/convert"), CABundle: webhooks.LocalServingCAData,
			}
		}
		return
	}
	if !converts(goTypes, schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}) {
		definition.Spec.Conversion = nil
		return
	}
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{
					Namespace: converterService.Namespace, Name: converterService.Name,
				},
			},
		},
	}
}

// converts reports whether a kind has several Go types, one of them is the hub, and all others
// convert to and from it.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/conversion IsConvertible.
func converts(goTypes *runtime.Scheme, kind schema.GroupKind) bool {
	hubs, spokes := 0, 0
	for _, version := range goTypes.VersionsForGroupKind(kind) {
		obj, err := goTypes.New(kind.WithVersion(version.Version))
		switch {
		case err != nil:
			return false
		case isHub(obj):
			hubs++
		case isSpoke(obj):
			spokes++
		default:
			return false
		}
	}
	return hubs == 1 && spokes > 0
}

// isHub reports whether a type implements Hub of controller-runtime's package conversion.
func isHub(obj runtime.Object) bool {
	_, ok := obj.(interface{ Hub() })
	return ok
}

// isSpoke reports whether a type implements Convertible of controller-runtime's package conversion.
// Its methods have parameters of a type of that package, which this module does not import.
func isSpoke(obj runtime.Object) bool {
	v := reflect.ValueOf(obj)
	return isConversion(v.MethodByName("ConvertTo")) && isConversion(v.MethodByName("ConvertFrom"))
}

// isConversion reports whether a method takes a hub and returns an error.
func isConversion(method reflect.Value) bool {
	if !method.IsValid() {
		return false
	}
	t := method.Type()
	return t.NumIn() == 1 && t.In(0).Kind() == reflect.Interface && t.NumOut() == 1 && t.Out(0) == reflect.TypeFor[error]()
}

// converter answers conversion reviews by the Go types of a scheme.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/conversion.
type converter struct{ goTypes *runtime.Scheme }

// ServeHTTP answers a review.
func (c converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "not a conversion review", http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{
		UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
	}
	for _, object := range review.Request.Objects {
		converted, err := c.convert(object.Raw, review.Request.DesiredAPIVersion)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: converted})
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the response is in memory
}

// convert returns an object in another version.
func (c converter) convert(data []byte, apiVersion string) (runtime.Object, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(data, &is); err != nil {
		return nil, err
	}
	from := is.GroupVersionKind()
	src, err := c.goTypes.New(from)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, src); err != nil {
		return nil, err
	}
	to := schema.FromAPIVersionAndKind(apiVersion, is.Kind)
	dst, err := c.goTypes.New(to)
	if err != nil {
		return nil, err
	}
	if err := c.convertInto(src, dst, from.GroupKind()); err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", from, to.Version, err)
	}
	dst.GetObjectKind().SetGroupVersionKind(to)
	return dst, nil
}

// convertInto converts src to dst, by way of the hub if neither of them is it.
func (c converter) convertInto(src, dst runtime.Object, kind schema.GroupKind) error {
	switch {
	case isHub(dst) && isSpoke(src):
		return call(reflect.ValueOf(src).MethodByName("ConvertTo"), dst)
	case isHub(src) && isSpoke(dst):
		return call(reflect.ValueOf(dst).MethodByName("ConvertFrom"), src)
	case !isSpoke(src) || !isSpoke(dst):
		return fmt.Errorf("%T does not convert to %T", src, dst)
	}
	for _, version := range c.goTypes.VersionsForGroupKind(kind) {
		hub, err := c.goTypes.New(kind.WithVersion(version.Version))
		if err != nil || !isHub(hub) {
			continue
		}
		if err := call(reflect.ValueOf(src).MethodByName("ConvertTo"), hub); err != nil {
			return err
		}
		return call(reflect.ValueOf(dst).MethodByName("ConvertFrom"), hub)
	}
	return fmt.Errorf("%s has no hub", kind)
}

// call calls a conversion method with a hub.
func call(method reflect.Value, hub runtime.Object) error {
	argument := reflect.ValueOf(hub)
	if !argument.CanConvert(method.Type().In(0)) {
		return fmt.Errorf("%T is not a %s", hub, method.Type().In(0))
	}
	err, _ := method.Call([]reflect.Value{argument})[0].Interface().(error)
	return err
}
