package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/contrib/ottercache"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/readpath/httpread"
	"github.com/breakwater-go/breakwater/replica"
)

// The endpoints, each with its class.
const (
	balance         = "balance"
	productDetail   = "product"
	recommendations = "recommendations"
)

// config is what a server is made from. The zero value of all but the DSNs works.
type config struct {
	dsn      string   // of the primary
	replicas []string // their DSNs
	settings replica.Settings
	recovery time.Duration // readpath.Recovery.Sustain
	secret   []byte        // signs the positions in cookies; one for all processes
}

// server is a shop: three kinds of reads and a write.
type server struct {
	store     store
	cache     *ottercache.Cache
	path      *readpath.Router
	positions *httpread.Positions
}

func newServer(ctx context.Context, c config) (*server, error) {
	signer, err := replica.NewPositionSigner(replica.PositionKey{ID: "1", Secret: c.secret})
	if err != nil {
		return nil, err
	}
	cache, err := ottercache.New(ottercache.Config{MaxEntries: 100_000})
	if err != nil {
		return nil, err
	}
	cfg := pgxread.Config{Primary: pgxread.Node{DSN: c.dsn}, Settings: c.settings}
	for i, dsn := range c.replicas {
		cfg.Replicas = append(cfg.Replicas, pgxread.Node{Name: "r" + strconv.Itoa(i+1), DSN: dsn})
	}
	db, err := pgxread.Open(ctx, cfg)
	if err != nil {
		cache.Close()
		return nil, err
	}
	path, err := newPath(db, cache, c.recovery)
	if err != nil {
		cache.Close()
		db.Close()
		return nil, err
	}
	return &server{
		store: store{db}, cache: cache, path: path,
		positions: &httpread.Positions{Cookie: "shop-position", InsecureCookie: true, Signer: signer}, // no TLS here
	}, nil
}

func newPath(db *pgxread.DB, cache readpath.Cache, sustain time.Duration) (*readpath.Router, error) {
	return readpath.New(readpath.Config{
		Backend: db.Backend(),
		Cache:   cache,
		Endpoints: map[string]readpath.Endpoint{
			balance:         {Class: readpath.Critical},
			productDetail:   {Class: readpath.Degradable},
			recommendations: {Class: readpath.Sheddable},
		},
		Budget:     readpath.Budget{Rate: 200, Burst: 200},
		Degradable: readpath.DegradablePolicy{LateReplicas: 30 * time.Second},
		Recovery:   readpath.Recovery{Sustain: sustain},
	})
}

// Close ends everything that the server started. Its requests must have ended.
func (s *server) Close() {
	s.path.Close()
	s.cache.Close()
	s.store.db.Close()
}

// Handler serves the endpoints. Answers tell how fresh they are, and a client's cookie has it read its own writes.
func (s *server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /accounts/{id}", s.getAccount)
	mux.HandleFunc("POST /accounts/{id}/deposit", s.postDeposit)
	mux.HandleFunc("GET /products/{id}", s.getProduct)
	mux.HandleFunc("GET /products/{id}/recommendations", s.getRecommendations)
	return s.positions.Handler(httpread.Handler(mux.ServeHTTP))
}

func (s *server) getAccount(w http.ResponseWriter, r *http.Request) {
	get(w, r, s.path, balance, s.store.account)
}

func (s *server) getProduct(w http.ResponseWriter, r *http.Request) {
	get(w, r, s.path, productDetail, s.store.product)
}

func (s *server) getRecommendations(w http.ResponseWriter, r *http.Request) {
	get(w, r, s.path, recommendations, s.store.recommendations)
}

// get answers with what load reads by way of the path.
func get[T any](w http.ResponseWriter, r *http.Request, path *readpath.Router, endpoint string, load func(context.Context, int64) (T, error)) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	call := readpath.Call{Endpoint: endpoint, Key: r.PathValue("id")}
	res, err := readpath.Get(r.Context(), path, call, func(ctx context.Context) (T, error) { return load(ctx, id) })
	answer(w, res.Value, err)
}

func (s *server) postDeposit(w http.ResponseWriter, r *http.Request) {
	id, errID := strconv.ParseInt(r.PathValue("id"), 10, 64)
	cents, errCents := strconv.ParseInt(r.FormValue("cents"), 10, 64)
	if errID != nil || errCents != nil || cents <= 0 {
		http.Error(w, "give the cents of the deposit, above 0", http.StatusBadRequest)
		return
	}
	a, position, err := s.store.deposit(r.Context(), id, cents)
	s.positions.Set(w, position)
	answer(w, a, err)
}

// answer writes v as JSON, or what err is to the client.
func answer(w http.ResponseWriter, v any, err error) {
	switch {
	case httpread.Refused(w, err): // 503 with Retry-After
	case errors.Is(err, pgx.ErrNoRows):
		http.Error(w, "there is none of that number", http.StatusNotFound)
	case err != nil:
		http.Error(w, "it went wrong on our side", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // a client that is gone has nobody to tell
	}
}
