package apiserver

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	mediaJSON     = runtime.ContentTypeJSON
	mediaYAML     = runtime.ContentTypeYAML
	mediaProtobuf = runtime.ContentTypeProtobuf

	streamSuffix = ";stream=watch"
)

// mediaTypes are the media types of bodies and answers, the preferred one first.
var mediaTypes = []string{mediaJSON, mediaYAML, mediaProtobuf}

// form is the form in which an answer is encoded.
type form struct {
	media   string
	pretty  bool
	convert *schema.GroupVersionKind // the kind to convert objects to. nil: no conversion
}

// form returns the first form that the client accepts. allows reports whether a media type has a
// conversion; nil allows none.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/negotiation NegotiateMediaTypeOptions.
func (r *request) form(allows func(media string, convert *schema.GroupVersionKind) bool) (form, bool) {
	if allows == nil {
		allows = func(_ string, convert *schema.GroupVersionKind) bool { return convert == nil }
	}
	pretty := r.pretty()
	header := r.Header.Get("Accept")
	if header == "" {
		return form{media: mediaJSON, pretty: pretty}, allows(mediaJSON, nil)
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, media := range mediaTypes {
			of, sub, _ := strings.Cut(media, "/")
			if clause.Type != "*" && clause.Type != of || clause.SubType != "*" && clause.SubType != sub ||
				clause.Type == "*" && clause.SubType != "*" {
				continue
			}
			f := form{media: media, pretty: pretty || clause.Params["pretty"] == "1"}
			if f.parse(clause.Params) && allows(media, f.convert) {
				return f, true
			}
		}
	}
	return form{}, false
}

// parse reads the parameters of a media type, and reports whether they are supported.
func (f *form) parse(params map[string]string) bool {
	var convert schema.GroupVersionKind
	converts := false
	for name, to := range map[string]*string{"as": &convert.Kind, "g": &convert.Group, "v": &convert.Version} {
		value, ok := params[name]
		*to = value
		converts = converts || ok
	}
	if converts {
		f.convert = &convert
	}
	if stream := params["stream"]; stream != "" && (stream != "watch" || f.media == mediaYAML) {
		return false
	}
	return params["sv"] == "" || params["sv"] == "v1"
}

// pretty reports whether the answer should be indented.
func (r *request) pretty() bool {
	if value := r.query.Get("pretty"); value != "" {
		pretty, _ := strconv.ParseBool(value)
		return pretty
	}
	agent := r.UserAgent()
	return slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"},
		func(p string) bool { return strings.HasPrefix(agent, p) })
}

// negotiate chooses the form of the answer to a request for a resource.
func (v *resourceRequest) negotiate() error {
	if hasGoTypes(v.apiResource) {
		if err := v.acceptable(v.name == "" && v.sub == ""); err != nil {
			return err
		}
	}
	var ok bool
	v.form, ok = v.request.form(func(media string, convert *schema.GroupVersionKind) bool {
		if convert == nil {
			return hasGoTypes(v.apiResource) || media != mediaProtobuf || v.sub == "scale"
		}
		switch convert.Kind {
		case "Table":
			return metaVersion(convert) && media != mediaProtobuf && v.convertsToTable()
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			return metaVersion(convert)
		}
		return false
	})
	if !ok {
		return errAccept(mediaTypes...)
	}
	return nil
}

// convertsToTable reports whether the resource or subresource has a table. Reviews, bindings and
// actions have none.
func (v *resourceRequest) convertsToTable() bool {
	switch v.sub {
	case "", "status", "scale", "ephemeralcontainers":
		return slices.Contains(v.apiResource.Verbs, "get")
	}
	return false
}

func metaVersion(gvk *schema.GroupVersionKind) bool {
	return gvk.GroupVersion() == metav1.SchemeGroupVersion || gvk.GroupVersion() == metav1beta1.SchemeGroupVersion
}

// acceptable checks the bare media types of the Accept header, as the real server does first for
// built-in resources.
//
// Upstream: github.com/emicklei/go-restful Route.matchesAccept.
func (r *request) acceptable(streams bool) error {
	header := r.Header.Get("Accept")
	if header == "" {
		return nil
	}
	for clause := range strings.SplitSeq(header, ",") {
		media, _, _ := strings.Cut(clause, ";")
		if media = strings.TrimSpace(media); media == "*/*" || media == "" || slices.Contains(mediaTypes, media) {
			return nil
		}
	}
	offered := slices.Clone(mediaTypes)
	if streams {
		offered = append(offered, mediaJSON+streamSuffix, mediaProtobuf+streamSuffix)
	}
	return newStatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"406: Not Acceptable\n\nAvailable representations: "+strings.Join(offered, ", "), &metav1.StatusDetails{})
}

// bodyMedia returns the media type of the request's body.
func (r *request) bodyMedia() (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return mediaJSON, nil
	}
	if media, _, err := mime.ParseMediaType(header); err == nil && slices.Contains(mediaTypes, media) {
		return media, nil
	}
	return "", errBody(mediaTypes...)
}
