package httpread_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/readpath/httpread"
	"github.com/breakwater-go/breakwater/replica"
)

// An unverified answer says so in its headers, and a refusal is 503 with a Retry-After.
func ExampleHandler() {
	var n nodes // the DB.Backend() of a driver
	router, err := readpath.New(readpath.Config{Backend: &n, Endpoints: map[string]readpath.Endpoint{
		"product": {Class: readpath.Degradable}, "related": {Class: readpath.Sheddable},
	}})
	if err != nil {
		panic(err)
	}
	defer router.Close()
	handler := httpread.Handler(func(w http.ResponseWriter, req *http.Request) {
		res, err := readpath.Get(req.Context(), router, readpath.Call{Endpoint: req.URL.Path[1:]}, n.load)
		if httpread.Refused(w, err) {
			return
		}
		fmt.Fprint(w, res.Value)
	})
	ask := func(path string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Println(path, w.Code, w.Header().Get("X-Data-Freshness"), "Retry-After:", w.Header().Get("Retry-After") != "")
	}
	ask("/product")
	n.unverified.Store(true)
	ask("/product")
	n.late.Store(true)
	ask("/related")
	// Output:
	// /product 200  Retry-After: false
	// /product 200 unverified Retry-After: false
	// /related 503  Retry-After: true
}

// After a write the client is given its position, and its next requests carry it in their contexts.
func ExamplePositions() {
	positions := &httpread.Positions{Cookie: "position"}
	handler := positions.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Printf("%s reads from %q\n", req.Method, replica.PositionFrom(req.Context()))
		if req.Method == http.MethodPost { // what pgxread.CommitPosition returned
			positions.Set(w, replica.Position{SystemID: "7458123456789012345", Timeline: 1, LSN: 0x16B374D848})
		}
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody))
	next := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	next.AddCookie(w.Result().Cookies()[0])
	handler.ServeHTTP(httptest.NewRecorder(), next)
	// Output:
	// POST reads from ""
	// GET reads from "7458123456789012345.1.16B374D848"
}
