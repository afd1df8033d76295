package admission

import (
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
)

// Handler returns the handler of a webhook, for fake.Config.Services and for tests. answer must set at least Allowed; the
// UID of the request is added to an answer without one. A body that is no review of admission.k8s.io/v1 is answered with
// 400.
func Handler(answer func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		err := json.NewDecoder(req.Body).Decode(&review)
		if err != nil || review.Request == nil || review.APIVersion != admissionv1.SchemeGroupVersion.String() {
			http.Error(w, "not an admission review of "+admissionv1.SchemeGroupVersion.String(), http.StatusBadRequest)
			return
		}
		response := answer(review.Request)
		if response != nil && response.UID == "" {
			response.UID = review.Request.UID
		}
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // a caller that is gone gets no answer
	})
}
