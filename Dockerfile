# One image for all processes: the command says which (control-plane/main.ts, engine/main.ts, ftp/main.ts), by default
# the whole service. What is copied here is all that runs; test/e2e/compose.test.ts runs it so.
FROM node:26.10.0-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The optional ones are Node.js itself, which the image has.
RUN npm ci --omit=dev --omit=optional

FROM node:26.10.0-bookworm-slim
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
# The modes are the image's own: a clone under umask 027 would make files that its user can't read.
COPY --chmod=644 package.json LICENSE ./
COPY --chmod=755 shared shared
COPY --chmod=755 control-plane control-plane
COPY --chmod=755 engine engine
COPY --chmod=755 ftp ftp
RUN mkdir -m 700 /data && mkdir compiled && chown node:node /data compiled
# A number, so that a cluster can check that it isn't root; it is the user `node` of the image.
USER 1000:1000
ENV NODE_ENV=production \
    NODE_COMPILE_CACHE=/app/compiled \
    EMBEDDED_MONGODB=false \
    MALLOC_ARENA_MAX=2 \
    UV_THREADPOOL_SIZE=32 \
    DATA_DIR=/data \
    HTTP_HOST=0.0.0.0 \
    FTP_HOST=0.0.0.0 \
    FTP_PASSIVE_PORTS=2122-2141 \
    METRICS_HOST=0.0.0.0 \
    HEALTH_URL=http://127.0.0.1:8080/readyz
# Each program is loaded once, and ends at a wrong setting: what it compiled is kept, and a container starts with it.
# A program that ends for another reason fails the build with what it said.
RUN for program in control-plane engine ftp; do \
      said=$(LOG_LEVEL=none node $program/main.ts 2>&1); \
      case "$said" in *'setting LOG_LEVEL'*) ;; *) echo "$said"; exit 1 ;; esac; \
    done
VOLUME /data
EXPOSE 8080 9464 9465 2121 2122-2141
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --start-interval=1s --retries=3 \
  CMD ["node", "-e", "fetch(process.env.HEALTH_URL).then((reply) => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node"]
# Without npm: one process and 50 MB less, and signals arrive.
CMD ["control-plane/cli/start.ts"]
