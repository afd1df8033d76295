package apiserver

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
)

// get answers with an object.
func (v *resourceRequest) get(client fake.ResourceClient) (answer, error) {
	opts, err := v.getOptions()
	if err != nil {
		return answer{}, err
	}
	obj, err := client.Get(v.Context(), v.name, opts)
	if err != nil {
		return answer{}, err
	}
	return v.objectAnswer(http.StatusOK, client, obj)
}

// list answers with the selected objects.
func (v *resourceRequest) list() (answer, error) {
	opts, err := v.listOptions()
	if err != nil {
		return answer{}, err
	}
	all, err := v.client.List(v.Context(), opts)
	if err != nil {
		return answer{}, err
	}
	return v.listAnswer(all)
}

// create creates the object in the body.
func (v *resourceRequest) create() (answer, error) {
	media, body, err := v.input()
	if err != nil {
		return answer{}, err
	}
	opts, err := v.createOptions()
	if err != nil {
		return answer{}, err
	}
	obj, err := v.decode(v.client, media, body, opts.FieldValidation)
	if err != nil {
		return answer{}, err
	}
	v.recordObject(v.client, obj)
	if err := v.setNamespace(obj); err != nil {
		return answer{}, err
	}
	done, err := v.client.Create(v.Context(), obj, opts)
	if err != nil {
		return answer{}, err
	}
	return v.writeAnswer(http.StatusCreated, v.client, done)
}

// update replaces an object, or the one that the subresource belongs to, with the body.
func (v *resourceRequest) update(client fake.ResourceClient, sub ...string) (answer, error) {
	media, body, err := v.input()
	if err != nil {
		return answer{}, err
	}
	opts, err := v.updateOptions()
	if err != nil {
		return answer{}, err
	}
	obj, err := v.decode(client, media, body, opts.FieldValidation)
	if err != nil {
		return answer{}, err
	}
	v.recordObject(client, obj)
	if err := v.setNamespace(obj); err != nil {
		return answer{}, err
	}
	if err := v.target.checkName(obj); err != nil {
		return answer{}, err
	}
	done, err := client.Update(v.Context(), v.name, obj, opts, sub...)
	return v.changeAnswer(client, done, err)
}

// patch patches an object, or the one that the subresource belongs to.
func (v *resourceRequest) patch(client fake.ResourceClient, sub ...string) (answer, error) {
	pt, err := v.patchType()
	if err != nil {
		return answer{}, err
	}
	body, err := v.readBody()
	if err != nil {
		return answer{}, err
	}
	opts, err := v.patchOptions(pt)
	if err != nil {
		return answer{}, err
	}
	v.record().RequestPatch(body)
	done, err := client.Patch(v.Context(), v.name, pt, body, opts, sub...)
	return v.changeAnswer(client, done, err)
}

// delete deletes an object, or marks it as being deleted.
func (v *resourceRequest) delete() (answer, error) {
	opts, err := v.deleteOptions()
	if err != nil {
		return answer{}, err
	}
	done, err := v.client.Delete(v.Context(), v.name, opts)
	if err != nil {
		return answer{}, err
	}
	code := http.StatusOK
	//lint:ignore SA1019 old clients send it
	if orphan := opts.OrphanDependents; !done.Deleted && orphan != nil && !*orphan {
		code = http.StatusAccepted
	}
	if !done.Deleted || !v.client.DeleteReturnsStatus() {
		return v.writeAnswer(code, v.client, done)
	}
	v.warn(done.Warnings...)
	return v.encodedAnswer(code, v.unconvertedForm(), &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: v.name, Group: v.Group, Kind: v.Resource, UID: done.Object.GetUID()},
	})
}

// deleteCollection deletes the selected objects, and answers with them.
func (v *resourceRequest) deleteCollection() (answer, error) {
	sel, err := v.listOptions()
	if err != nil {
		return answer{}, err
	}
	opts, err := v.deleteOptions()
	if err != nil {
		return answer{}, err
	}
	all, err := v.client.DeleteCollection(v.Context(), opts, sel)
	if err != nil {
		return answer{}, err
	}
	v.warn(all.Warnings...)
	return v.listAnswer(all)
}

// input reads the body of a write request, and returns its media type.
func (v *resourceRequest) input() (media string, body []byte, err error) {
	if media, err = v.bodyMedia(); err != nil {
		return "", nil, err
	}
	body, err = v.readBody()
	return media, body, err
}

// decode decodes a body into an object of client's kind.
func (v *resourceRequest) decode(
	client fake.ResourceClient, media string, body []byte, directive string,
) (fake.Object, error) {
	want := client.GroupVersionKind()
	into := client.New()
	if _, ok := into.(*fake.CustomObject); ok {
		obj, err := v.decodeCustom(media, body, v.apiResource.Custom, want, directive)
		if err != nil {
			return nil, err
		}
		return obj, nil
	}
	obj, err := v.decodeObject(media, body, into, want, directive)
	if err != nil {
		return nil, err
	}
	if obj != into {
		return nil, versionError(v.versionOf(obj), want.GroupVersion())
	}
	return into, nil
}

// changeAnswer answers with the result of an update or a patch.
func (v *resourceRequest) changeAnswer(client fake.ResourceClient, done fake.Result, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	code := http.StatusOK
	if done.Created {
		code = http.StatusCreated
	}
	return v.writeAnswer(code, client, done)
}

// writeAnswer answers with the result of a write.
func (v *resourceRequest) writeAnswer(code int, client fake.ResourceClient, done fake.Result) (answer, error) {
	v.warn(done.Warnings...)
	if code == http.StatusCreated && v.sub == "" {
		v.warn(v.h.server.CreateWarnings(v.GroupResource())...)
	}
	return v.objectAnswer(code, client, done.Object)
}

// unconvertedForm returns the negotiated form without conversion, for objects of other kinds.
func (v *resourceRequest) unconvertedForm() form {
	return form{media: v.form.media, pretty: v.form.pretty}
}

// versionOf returns the version of an object of a built-in type.
func (v *resourceRequest) versionOf(obj any) schema.GroupVersion {
	return v.h.codecs.kindOf(obj).GroupVersion()
}
