package cloudevent

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// full is a trigger with every field, and text that needs encoding.
func full() emit.Trigger {
	return emit.Trigger{
		ID: `a "1" 100%`, Type: "order.paid", Source: "/shop?a=b c", Subject: "Euro € 😀",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Key: "käufer 7",
		ContentType: "application/vnd.shop+json; charset=utf-8", Data: []byte(`{"sum": 1e2,  "x":"<&>"}`),
		Attributes: map[string]string{"traceparent": "00-ab-cd-01", "dataschema": "https://x.test/s"},
	}
}

func request(t *testing.T, tr emit.Trigger, structured bool) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(tr.Data))
	if !structured {
		if err := Binary(req.Header, tr); err != nil {
			t.Fatal(err)
		}
		return req
	}
	body, err := Structured(tr)
	if err != nil {
		t.Fatal(err)
	}
	req = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	req.Header.Set("Content-Type", StructuredType)
	return req
}

// What is written is read as it was, in both modes, whatever the data is.
func TestRoundTrip(t *testing.T) {
	for name, change := range map[string]func(*emit.Trigger){
		"all":           func(*emit.Trigger) {},
		"no data":       func(tr *emit.Trigger) { tr.Data = nil },
		"bytes":         func(tr *emit.Trigger) { tr.ContentType, tr.Data = "application/x-avro", []byte{0, 0xff, '"'} },
		"text":          func(tr *emit.Trigger) { tr.ContentType, tr.Data = "text/plain", []byte("a\r\nb") },
		"says JSON":     func(tr *emit.Trigger) { tr.ContentType, tr.Data = "application/json", []byte(`{"a":`) },
		"a JSON string": func(tr *emit.Trigger) { tr.ContentType, tr.Data = "application/json", []byte(`"x"`) },
		"least": func(tr *emit.Trigger) {
			*tr = emit.Trigger{ID: "1", Type: "t", Source: "/s", ContentType: "application/json"}
		},
	} {
		for _, structured := range []bool{false, true} {
			want := full()
			change(&want)
			got, err := Read(request(t, want, structured), 1<<20)
			if len(got.Data) == 0 {
				got.Data = nil
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, structured %v:\ngot  %+v, %v\nwant %+v", name, structured, got, err, want)
			}
		}
	}
}

func TestBinaryHeaders(t *testing.T) {
	h := request(t, full(), false).Header
	for name, want := range map[string]string{
		"ce-specversion":     "1.0",
		"ce-id":              "a%20%221%22%20100%25",
		"ce-source":          "/shop?a=b%20c",
		"ce-subject":         "Euro%20%E2%82%AC%20%F0%9F%98%80",
		"ce-time":            "2026-01-02T03:04:05.000006Z",
		"ce-partitionkey":    "k%C3%A4ufer%207",
		"ce-traceparent":     "00-ab-cd-01",
		"ce-datacontenttype": "",
		"ce-priority":        "",
		"Content-Type":       "application/vnd.shop+json; charset=utf-8",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestStructuredKeepsJSONAsItIs(t *testing.T) {
	for media, inline := range map[string]bool{"": true, "application/json; charset=utf-8": true, "text/json": true, "application/x+json": false} {
		tr := full()
		tr.ContentType = media
		if body, err := Structured(tr); err != nil || bytes.Contains(body, tr.Data) != inline {
			t.Errorf("%q: got %s, %v", media, body, err)
		}
	}
}

// What can be no event is rejected: every fault is told, and no value.
func TestNoCloudEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*emit.Trigger)
		want   string
	}{
		"no ID":            {func(tr *emit.Trigger) { tr.ID = "" }, "it has no id"},
		"no Type":          {func(tr *emit.Trigger) { tr.Type = "" }, "it has no type"},
		"no Source":        {func(tr *emit.Trigger) { tr.Source = "" }, "it has no source"},
		"no URI":           {func(tr *emit.Trigger) { tr.Source = "/secret%zz" }, "source: it is no URI"},
		"upper case":       {func(tr *emit.Trigger) { tr.Attributes["traceId"] = "secret" }, `attribute "traceId": use lower-case`},
		"no name":          {func(tr *emit.Trigger) { tr.Attributes[""] = "secret" }, `attribute "": use`},
		"a field":          {func(tr *emit.Trigger) { tr.Attributes["id"] = "secret" }, "attribute id: set the trigger's own field"},
		"data":             {func(tr *emit.Trigger) { tr.Attributes["data"] = "secret" }, "attribute data: set"},
		"two keys":         {func(tr *emit.Trigger) { tr.Attributes["partitionkey"] = "secret" }, "partitionkey is not the Key"},
		"control":          {func(tr *emit.Trigger) { tr.Subject = "secret\n" }, "subject: it has control characters"},
		"C1 control":       {func(tr *emit.Trigger) { tr.Subject = "secret\u0085" }, "subject: it has control characters"},
		"noncharacter":     {func(tr *emit.Trigger) { tr.Key = "secret\ufffe" }, "partitionkey: it has control characters"},
		"not UTF-8":        {func(tr *emit.Trigger) { tr.ID = "secret\xff" }, "id: it has control characters, or is not UTF-8"},
		"year":             {func(tr *emit.Trigger) { tr.Time = tr.Time.AddDate(9000, 0, 0) }, "time: its year"},
		"media type":       {func(tr *emit.Trigger) { tr.ContentType = "secret; ;" }, "datacontenttype: it is no media type"},
		"an event's media": {func(tr *emit.Trigger) { tr.ContentType = "application/cloudevents+json" }, "receivers would take it"},
	} {
		tr := full()
		tc.change(&tr)
		_, structured := Structured(tr)
		for _, err := range []error{Binary(http.Header{}, tr), structured} {
			if !errors.Is(err, emit.ErrRejected) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: got %v, want %q", name, err, tc.want)
			}
		}
	}
	if err := Binary(http.Header{}, emit.Trigger{}); strings.Count(err.Error(), "it has no") != 3 {
		t.Errorf("of three faults: got %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"plain request":   {func(req *http.Request) { req.Header = http.Header{} }, "specversion is not 1.0"},
		"old version":     {func(req *http.Request) { req.Header.Set("ce-specversion", "0.3") }, "specversion is not 1.0"},
		"no ID":           {func(req *http.Request) { req.Header.Del("ce-id") }, "it has no id"},
		"percent":         {func(req *http.Request) { req.Header.Set("ce-id", "%z") }, "header ce-id cannot be read"},
		"overlong":        {func(req *http.Request) { req.Header.Set("ce-id", "%C0%A0") }, "header ce-id cannot be read"},
		"twice":           {func(req *http.Request) { req.Header.Add("ce-id", "2") }, "header ce-id cannot be read"},
		"time":            {func(req *http.Request) { req.Header.Set("ce-time", "noon") }, "time is not of RFC 3339"},
		"batch":           {func(req *http.Request) { req.Header.Set("Content-Type", "application/cloudevents-batch+json") }, "format is not read"},
		"no JSON":         {func(req *http.Request) { req.Header.Set("Content-Type", StructuredType); req.Body = body("[]") }, "no JSON object"},
		"array member":    {structured(`{"specversion":"1.0","id":"1","source":"/","type":"t","x":[1]}`), `member "x" cannot be read`},
		"both data":       {structured(`{"specversion":"1.0","id":"1","source":"/","type":"t","data":1,"data_base64":""}`), "data_base64 cannot be read"},
		"text no string":  {structured(`{"specversion":"1.0","id":"1","source":"/","type":"t","datacontenttype":"text/plain","data":1}`), "data is no string"},
		"too large":       {func(req *http.Request) { req.Body = body(strings.Repeat("x", 101)) }, "too large"},
		"datacontenttype": {func(req *http.Request) { req.Header.Set("ce-datacontenttype", "x/y") }, "header ce-datacontenttype cannot be read"},
	} {
		req := request(t, full(), false)
		tc.change(req)
		if _, err := Read(req, 100); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestReadWhatOthersWrite(t *testing.T) {
	req := request(t, full(), false)
	req.Header.Set("ce-id", `"a \"b\" c"`)
	if got, err := Read(req, 1<<20); err != nil || got.ID != `a "b" c` {
		t.Errorf("quoted: got %q, %v", got.ID, err)
	}
	structured(`{"specversion":"1.0","id":"1","source":"/","type":"t","subject":null,"n":5,"b":true,"data":"x"}`)(req)
	got, err := Read(req, 1<<20)
	if err != nil || got.Attributes["n"] != "5" || got.Attributes["b"] != "true" || got.Subject != "" || string(got.Data) != `"x"` {
		t.Errorf("types: got %+v, %v", got, err)
	}
	structured(`{"specversion":"1.0","id":"1","source":"/","type":"t","datacontenttype":"a/b+json","data":{"x": 1}}`)(req)
	if got, err := Read(req, 1<<20); err != nil || string(got.Data) != `{"x": 1}` {
		t.Errorf("+json: got %+v, %v", got, err)
	}
	structured(`{"specversion":"1.0","id":"1","source":"/","type":"t","datacontenttype":"text/xml","data":"<x/>"}`)(req)
	if got, err := Read(req, 1<<20); err != nil || string(got.Data) != `<x/>` {
		t.Errorf("text: got %+v, %v", got, err)
	}
}

// Each event of a batch is read by itself; what is no list of events, or too long a one, is refused as a whole.
func TestBatch(t *testing.T) {
	const event = `{"specversion":"1.0","id":"1","source":"/","type":"t","data":{"a": 1}}`
	items, err := Batch([]byte(" [ "+event+`, {"id":"2"} , 7,`+event+"]\n"), 4)
	if err != nil || len(items) != 4 {
		t.Fatalf("got %d events, %v", len(items), err)
	}
	for i, good := range []bool{true, false, false, true} {
		if got := items[i]; (got.Err == nil) != good || good && string(got.Trigger.Data) != `{"a": 1}` {
			t.Errorf("event %d: got %+v", i, got)
		}
	}
	if items, err := Batch([]byte("[]"), 4); err != nil || len(items) != 0 {
		t.Errorf("an empty batch: got %v, %v", items, err)
	}
	if _, err := Batch([]byte("["+strings.Repeat("{},", 4)+"{}]"), 4); !errors.Is(err, emit.ErrTooLarge) {
		t.Errorf("a long batch: got %v", err)
	}
	for _, text := range []string{"", "{}", event, "[", "[{}", "[{}]x", "[{},]", "[{]", "[] []", "null", "[\xff]"} {
		if _, err := Batch([]byte(text), 4); !errors.Is(err, emit.ErrRejected) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// A fault names the attribute, what it was, and what to do; the error's text holds no value.
func TestFaultsName(t *testing.T) {
	_, err := Parse(http.Header{"Content-Type": {StructuredType}}, []byte(`{"specversion":"0.3","source":"/","type":"t","time":"noon"}`))
	var e *InvalidError
	if !errors.As(err, &e) || len(e.Faults) != 3 {
		t.Fatalf("got %v, want three faults", err)
	}
	got := map[string]string{}
	for _, f := range e.Faults {
		got[f.Attribute] = f.Value
		if f.Mend == "" || f.Text == "" {
			t.Errorf("%s: got %+v", f.Attribute, f)
		}
	}
	if want := map[string]string{"specversion": "0.3", "time": "noon", "id": ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if strings.Contains(err.Error(), "noon") {
		t.Errorf("the error shows a value: %v", err)
	}
}

// What could be read in two ways, or would cost far more memory than its bytes, is refused.
func TestReadRefusesTricks(t *testing.T) {
	many := strings.Builder{}
	for i := range 300 {
		many.WriteString(`"a` + strings.Repeat("x", i) + `":1,`)
	}
	for text, want := range map[string]string{
		`{"id":"1","id":"2"}`: `member "id" is there twice`, `{"id":"1"} x`: "no JSON object", `{"id":"1",}`: "no JSON object",
		"{\"id\":\"\xff\"}": "no JSON object", `{"id"}`: "no JSON object", "{" + many.String() + `"id":"1"}`: "over 256 attributes",
	} {
		if _, err := Parse(http.Header{"Content-Type": {StructuredType}}, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %q", text, err, want)
		}
	}
}

func body(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

func structured(text string) func(*http.Request) {
	return func(req *http.Request) {
		req.Header = http.Header{"Content-Type": {StructuredType}}
		req.Body = body(text)
	}
}

// Whatever is sent, it is read or refused; what was read can be written again and is read alike.
func FuzzRead(f *testing.F) {
	f.Add(false, "1", "/s", `{"a":1}`, "application/json")
	f.Add(true, "", "", `{"specversion":"1.0","id":"1","source":"/","type":"t","data_base64":"AA=="}`, "")
	f.Fuzz(func(t *testing.T, mode bool, id, source, text, media string) {
		req := &http.Request{Header: http.Header{
			"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {id}, "Ce-Source": {source}, "Content-Type": {media},
		}, Body: body(text)}
		if mode {
			structured(text)(req)
		}
		first, err := Read(req, 1<<20)
		if err != nil {
			return
		}
		for _, mode := range []bool{false, true} {
			again := &http.Request{Header: http.Header{}, Body: body(string(first.Data))}
			if mode {
				text, err := Structured(first)
				if err != nil {
					return // read leniently, written strictly
				}
				structured(string(text))(again)
			} else if Binary(again.Header, first) != nil {
				return
			}
			second, err := Read(again, 2<<20)
			if err != nil || second.ID != first.ID || second.Source != first.Source || !bytes.Equal(second.Data, first.Data) {
				t.Errorf("structured %v: got %+v, %v, want %+v", mode, second, err, first)
			}
		}
	})
}
