# One image, three processes: the command says which (control-plane, engine, ftp, or start for all of them).
FROM node:26-bookworm-slim
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional
COPY control-plane control-plane
COPY engine engine
COPY ftp ftp
COPY shared shared
RUN mkdir -p /data node_modules/.cache/rollcall && chown node:node /data node_modules/.cache/rollcall
USER node
ENV DATA_DIR=/data HTTP_HOST=0.0.0.0 FTP_HOST=0.0.0.0 METRICS_HOST=0.0.0.0
VOLUME /data
ENTRYPOINT ["npm", "run", "--silent"]
CMD ["start"]
